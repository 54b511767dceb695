"""The kinds of drawing that the page uses: curves, intervals, bars and a map of pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ulr.report.format import known
from ulr.report.html import Html
from ulr.report.scales import Scale, span, tick_text
from ulr.report.svg import (
    CHARACTER,
    Frame,
    apart,
    axes,
    box,
    cross,
    dot,
    drawing,
    line,
    path,
    words,
)

LABEL_GAP = 15


@dataclass(frozen=True)
class Curve:
    """Points from left to right, None where there is none. kind: strong, plain, faint or truth."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    kind: str = "strong"
    band: Sequence[tuple[float | None, float | None]] = field(default_factory=list)
    marks: bool = True


@dataclass(frozen=True)
class Span:
    """A value with its interval. strong: the one to look at first."""

    name: str
    value: float
    lower: float | None
    upper: float | None
    text: str
    strong: bool = False


def curves_chart(
    width: int,
    curves: Sequence[Curve],
    *,
    x_name: str,
    y_name: str,
    alternative: str,
    log: bool = False,
    height: int | None = None,
    mark: tuple[float, str] | None = None,
) -> Html:
    """Curves over whole numbers, each named at its right end. mark: a place on x and its words."""
    longest = max(len(c.name) for c in curves) * CHARACTER + 16
    frame = Frame(
        width, height or (250 if width < 500 else 300), 46, min(longest, width * 0.3), 34, 46
    )
    every = [v for c in curves for v in _values(c)]
    low, high = span(every, pad=0.0 if log else 0.06)
    if log:
        low, high = max(low, 1e-4) / 1.12, max(high, 2e-4) * 1.12
    places = sorted({v for c in curves for v in c.x})
    x = frame.x(places[0], max(places[-1], places[0] + 1))
    y = frame.y(low, high, log=log)
    wanted = 5 if frame.narrow and x.high - x.low > 12 else 10  # a dozen positions have room
    ticks = [t for t in x.ticks(wanted) if t == int(t) and t >= places[0]]
    parts = [axes(frame, x, y, x_name=x_name, y_name=y_name, x_ticks=ticks)]
    if mark:
        late = x(mark[0]) > (x.start + x.end) / 2
        parts += [line(x(mark[0]), frame.top, x(mark[0]), frame.height - frame.bottom, "rule"),
                  words(x(mark[0]) + (-6 if late else 6), frame.top + 11, mark[1], "note",
                        "end" if late else "start")]  # fmt: skip
    parts += [p for c in curves for p in _curve(c, x, y)]
    parts += _names(curves, x, y, frame)
    return drawing(frame.width, frame.height, alternative, *parts)


def _values(curve: Curve) -> list[float]:
    ends = [v for pair in curve.band for v in pair]
    return [v for v in (*curve.y, *ends) if known(v)]


def _curve(curve: Curve, x: Scale, y: Scale) -> list[Html]:
    """The band under the line, the line broken where a value is missing, marks on top."""
    parts = []
    edges = [(x(a), y(low), y(high)) for a, (low, high) in zip(curve.x, curve.band, strict=False)
             if known(low) and known(high)]  # fmt: skip
    if len(edges) > 1:
        outline = [(a, high) for a, _, high in edges] + [(a, low) for a, low, _ in reversed(edges)]
        parts.append(path(outline, f"band {curve.kind}", closed=True))
    if curve.kind != "truth":
        parts += [path([(x(a), y(b)) for a, b in run], f"curve {curve.kind}")
                  for run in _runs(curve)]  # fmt: skip
    draw = cross if curve.kind == "truth" else dot
    if curve.marks:
        parts += [draw(x(a), y(b), f"mark {curve.kind}", f"{curve.name} {a}: {b:.4g}")
                  for a, b in zip(curve.x, curve.y, strict=True) if known(b)]  # fmt: skip
    return parts


def _runs(curve: Curve) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = [[]]
    for a, b in zip(curve.x, curve.y, strict=True):
        if known(b):
            runs[-1].append((a, b))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if len(run) > 1]


def _names(curves: Sequence[Curve], x: Scale, y: Scale, frame: Frame) -> list[Html]:
    ends = []
    for curve in curves:
        points = [(a, b) for a, b in zip(curve.x, curve.y, strict=True) if known(b)]
        if points and curve.name:
            ends.append((curve, y(points[-1][1])))
    places = apart([at for _, at in ends], LABEL_GAP, frame.top + 4, frame.height - frame.bottom)
    right = frame.width - frame.right + 10
    return [words(right, at + 4, c.name, f"name {c.kind}")
            for (c, _), at in zip(ends, places, strict=True)]  # fmt: skip


def spans_chart(
    width: int, spans: Sequence[Span], *, x_name: str, alternative: str, zero: bool, sides: str = ""
) -> Html:
    """Values with their intervals, one under the other. zero: with a line at 0."""
    narrow = width < 500
    row = 40 if narrow else 28
    left = 8 if narrow else max(len(s.name) for s in spans) * CHARACTER + 24
    right = 12 if narrow else max(len(s.text) for s in spans) * CHARACTER + 18
    top = 26 if sides else 10
    frame = Frame(width, int(top + row * len(spans) + 46), left, right, top, 46)
    ends = [v for s in spans for v in (s.value, s.lower, s.upper) if known(v)]
    x = frame.x(*span(ends, around=0.0 if zero else None))
    base = frame.height - frame.bottom
    parts = [line(x(t), frame.top, x(t), base, "grid") for t in x.ticks(4 if narrow else 7)]
    parts += [
        words(x(t), base + 18, tick_text(t), "tick", "middle") for t in x.ticks(4 if narrow else 7)
    ]
    if zero:
        parts.append(line(x(0.0), frame.top, x(0.0), base, "rule"))
    if sides:
        parts += [words(x(0.0) + 6, 14, sides, "note")]
    for n, one in enumerate(spans):
        middle = frame.top + row * n + (row - 10 if narrow else row / 2)
        parts += _span(one, x, middle, frame)
    parts.append(words((frame.left + width - frame.right) / 2, base + 36, x_name, "axis", "middle"))
    return drawing(frame.width, frame.height, alternative, *parts)


def _span(one: Span, x: Scale, middle: float, frame: Frame) -> list[Html]:
    kind = "strong" if one.strong else "plain"
    parts = []
    if known(one.lower) and known(one.upper):
        parts.append(line(x(one.lower), middle, x(one.upper), middle, f"reach {kind}"))
    parts.append(dot(x(one.value), middle, f"mark {kind}", f"{one.name} {one.text}", radius=4))
    if frame.narrow:
        return [*parts, words(0, middle - 12, one.name, f"name {kind}"),
                words(frame.width, middle - 12, one.text, f"value {kind}", "end")]  # fmt: skip
    return [*parts, words(frame.left - 12, middle + 4, one.name, f"name {kind}", "end"),
            words(frame.width, middle + 4, one.text, f"value {kind}", "end")]  # fmt: skip


def bars_chart(
    width: int, bars: Sequence[tuple[str, float, str, bool]], *, alternative: str
) -> Html:
    """Bars from 0 with their values beside them: (name, value, text, strong)."""
    row = 26
    left = max(len(b[0]) for b in bars) * CHARACTER + 14
    right = max(len(b[2]) for b in bars) * CHARACTER + 14
    x = Scale(0.0, max([b[1] for b in bars if known(b[1])] + [1e-12]), left, width - right)
    parts = []
    for n, (name, value, shown, strong) in enumerate(bars):
        top = 4 + row * n
        kind = "strong" if strong else "plain"
        reach = max(x(value) - left, 1.5)
        parts += [words(left - 10, top + 14, name, f"name {kind}", "end"),
                  box(left, top + 3, reach, row - 11, f"{name}: {shown}", class_=f"bar {kind}"),
                  words(left + reach + 7, top + 14, shown, f"value {kind}")]  # fmt: skip
    return drawing(width, row * len(bars) + 6, alternative, *parts)


def pairs_map(
    width: int,
    size: int,
    cells: Mapping[tuple[int, int], tuple[float | None, str]],
    *,
    alternative: str,
    below: str = "",
) -> Html:
    """A square of (row, column) -> (value in 0..1, kind).

    kind: measured, filled or refused; theta on the diagonal; truth.
    """
    left, top = 24, 24
    cell = min((width - left - 2) / size, 52)
    room = cell >= 27
    parts = []
    for n in range(1, size + 1):
        at = top + cell * (n - 0.5) + 4
        if cell >= 14 or n % 5 == 0 or n == 1:
            across = left + cell * (n - 0.5)
            parts += [words(left - 7, at, str(n), "tick", "end"),
                      words(across, top - 8, str(n), "tick", "middle")]  # fmt: skip
    for (k, v), (value, kind) in sorted(cells.items()):
        x, y = left + cell * (v - 1), top + cell * (k - 1)
        told = f"({k}, {v}) {kind}: {value:.4f}" if known(value) else f"({k}, {v}) {kind}"
        parts.append(box(x + 0.75, y + 0.75, cell - 1.5, cell - 1.5, told, rx=2,
                         class_=f"cell {kind}", fill_opacity=_shade(value)))  # fmt: skip
        if room:
            parts.append(
                words(x + cell / 2, y + cell / 2 + 4, _cell_text(value), _tone(value), "middle")
            )
    height = top + cell * size + (22 if below else 4)
    if below:
        parts.append(words(left, height - 4, below, "note"))
    return drawing(max(left + cell * size + 2, width if below else 0), height, alternative, *parts)


def _shade(value: float | None) -> str:
    """Square root: the small values of deep positions stay apart."""
    return f"{0.05 + 0.95 * math.sqrt(min(max(value, 0.0), 1.0)):.2f}" if known(value) else "0"


def _tone(value: float | None) -> str:
    """Which ink is read on that shade: dark and light pages change over at different points."""
    shade = float(_shade(value))
    return "in" + (" deep" if shade > 0.8 else " middle" if shade > 0.62 else "")


def _cell_text(value: float | None) -> str:
    if not known(value):
        return "×"
    if value >= 0.995:
        return "1"
    return f"{value:.{2 if value >= 0.00995 else 3}f}".lstrip("0")
