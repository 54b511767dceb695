"""Lines over whole numbers, such as positions or iterations, over dates, or over named values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from ulr.report.charts import svg
from ulr.report.charts.scales import Scale, date_ticks, padded_range, tick_label
from ulr.report.format import known

LABEL_GAP = 15  # pixels between the names of two lines
LISTED = 20  # points of a line in the description of the chart


@dataclass(frozen=True)
class Line:
    """Points from left to right; y is None where a value is missing.

    kind: a CSS class, such as strong, plain or faint. marks: dots on the line, nothing but the
    line (""), or points, rings or crosses without a line. band: lower and upper end at every x.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    kind: str = "strong"
    marks: str = "dots"
    band: Sequence[tuple[float | None, float | None]] = field(default_factory=list)

    def points(self) -> list[tuple[float, float]]:
        """Return the points that have a value."""
        return [(x, y) for x, y in zip(self.x, self.y, strict=True) if known(y)]


@dataclass(frozen=True)
class LinesChart:
    """Lines, each named at its right end. rule: x and label of a vertical line.

    x_labels: the values of x that get a tick, with its text; empty: round whole numbers.
    dates: whether x are the ordinals of dates. from_zero: whether the axis of y begins at 0.
    """

    title: str
    lines: Sequence[Line]
    x_name: str
    y_name: str
    log: bool = False
    height: int | None = None
    rule: tuple[int, str] | None = None
    x_labels: Mapping[float, str] = field(default_factory=dict)
    dates: bool = False
    from_zero: bool = False

    def draw(self, width: int) -> Markup:
        """Return the chart as SVG."""
        names = max(len(line.name) for line in self.lines) * svg.CHARACTER + 16
        height = self.height or (250 if width < svg.NARROW else 300)
        frame = svg.Frame(width, height, left=46, right=min(names, width * 0.4), top=34)
        x, y = self._scales(frame)
        labels = self._x_labels(x, narrow=frame.narrow)
        x_axis = frame.x_axis(x, list(labels), self.x_name, labels)
        parts = [*frame.y_axis(y, self.y_name), *x_axis]
        if self.rule is not None:
            parts += _rule(frame, x(self.rule[0]), self.rule[1])
        parts += [part for line in self.lines for part in _draw_line(line, x, y, self._x_text)]
        parts += _names(self.lines, y, frame)
        described = (_describe(line, self._x_text) for line in self.lines)
        return svg.chart(width, height, f"{self.title}: " + "; ".join(described), *parts)

    def _x_text(self, x: float) -> str:
        return str(dt.date.fromordinal(int(x)) if self.dates else x)

    def _x_labels(self, x: Scale, *, narrow: bool) -> Mapping[float, str]:
        if self.dates:
            last = max(at for line in self.lines for at in line.x)
            return date_ticks(x.low, last, 3 if narrow else 8)
        ticks = x.ticks(5 if narrow and x.high - x.low > 12 else 10)
        return self.x_labels or {tick: tick_label(tick) for tick in ticks if tick == int(tick)}

    def _scales(self, frame: svg.Frame) -> tuple[Scale, Scale]:
        ends = [end for line in self.lines for band in line.band for end in band]
        values = filter(known, [*ends, *(v for line in self.lines for v in line.y)])
        low, high = padded_range(values, padding=0.0 if self.log else 0.06)
        if self.from_zero:
            low, high = 0.0, max(high, 0.0) or 1.0
        if self.log:
            low, high = max(low, 1e-4) / 1.12, max(high, 2e-4) * 1.12
        places = [at for line in self.lines for at in line.x]
        first, last = min(places), max(places)
        if last == first:
            last = first + 1
        return frame.x(first, last), frame.y(low, high, log=self.log)


def _describe(line: Line, x_text: Callable[[float], str]) -> str:
    points = [f"{x_text(x)}: {y:.4g}" for x, y in line.points()]
    if len(points) > LISTED:
        points = [f"from {points[0]} to {points[-1]}"]
    return f"{line.name} {', '.join(points)}".strip()


def _rule(frame: svg.Frame, x: float, text: str) -> list[Markup]:
    """Return the vertical line, with its label on the side that has more room."""
    right = x > (frame.left + frame.width - frame.right) / 2
    label = svg.text(x + (-6 if right else 6), frame.top + 11, text, "note",
                     "end" if right else None)  # fmt: skip
    return [svg.line(x, frame.top, x, frame.base, "rule"), label]


def _draw_line(line: Line, x: Scale, y: Scale, x_text: Callable[[float], str]) -> list[Markup]:
    """Return the band, the line, both interrupted where a value is missing, and the marks."""
    parts = [_band(run, line.kind, x, y) for run in _bands(line)]
    if line.marks in ("dots", ""):
        parts += [svg.path([(x(a), y(b)) for a, b in run], f"curve {line.kind}")
                  for run in _runs(line)]  # fmt: skip
    if line.marks:
        mark = svg.cross if line.marks == "crosses" else svg.dot
        kind = f"mark {line.kind}" + (" ring" if line.marks == "rings" else "")
        parts += [mark(x(a), y(b), kind, f"{line.name} {x_text(a)}: {b:.4g}")
                  for a, b in line.points()]  # fmt: skip
    return parts


def _bands(line: Line) -> list[list[tuple[float, float, float]]]:
    """Return the stretches of x, lower and upper end without a missing value."""
    runs: list[list[tuple[float, float, float]]] = [[]]
    for x, (low, high) in zip(line.x, line.band, strict=False):
        if known(low) and known(high):
            runs[-1].append((x, low, high))
        else:
            runs.append([])
    return [run for run in runs if run]


def _band(run: Sequence[tuple[float, float, float]], kind: str, x: Scale, y: Scale) -> Markup:
    """Return the area between the ends; a single interval is a vertical line."""
    if len(run) == 1:
        ((at, low, high),) = run
        return svg.line(x(at), y(low), x(at), y(high), f"reach {kind}")
    outline = [(x(at), y(high)) for at, _, high in run]
    outline += [(x(at), y(low)) for at, low, _ in run[::-1]]
    return svg.path(outline, f"band {kind}", closed=True)


def _runs(line: Line) -> list[list[tuple[float, float]]]:
    """Return the stretches of two or more points without a missing value."""
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in zip(line.x, line.y, strict=True):
        if known(y):
            runs[-1].append((x, y))
        else:
            runs.append([])
    return [run for run in runs if len(run) > 1]


def _names(lines: Sequence[Line], y: Scale, frame: svg.Frame) -> list[Markup]:
    named = [line for line in lines if line.name and line.points()]
    ends = [y(line.points()[-1][1]) for line in named]
    places = svg.spread(ends, LABEL_GAP, frame.top + 4, frame.base)
    x = frame.width - frame.right + 10
    return [svg.text(x, at + 4, line.name, f"name {line.kind}")
            for line, at in zip(named, places, strict=True)]  # fmt: skip
