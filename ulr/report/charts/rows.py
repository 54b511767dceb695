"""Charts with one named value per row: values with intervals, and bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from ulr.report.charts import svg
from ulr.report.charts.scales import Scale, padded_range
from ulr.report.format import known

BAR_ROW = 26  # pixels


class Value(NamedTuple):
    """One row. strong: drawn in the accent colour; lower, upper: the interval, if there is one."""

    name: str
    value: float
    text: str
    strong: bool = False
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class IntervalsChart:
    """Values with their intervals. note: text at the right of a line at 0."""

    title: str
    values: Sequence[Value]
    x_name: str
    note: str = ""

    def draw(self, width: int) -> Markup:
        """Return the chart as SVG."""
        narrow = width < svg.NARROW
        row = 40 if narrow else 28
        left = 8 if narrow else max(len(v.name) for v in self.values) * svg.CHARACTER + 24
        right = 12 if narrow else max(len(v.text) for v in self.values) * svg.CHARACTER + 18
        top = 26 if self.note else 10
        frame = svg.Frame(width, top + row * len(self.values) + 46, left, right, top)
        ends = [e for v in self.values for e in (v.value, v.lower, v.upper) if known(e)]
        x = frame.x(*padded_range(ends, include=0.0 if self.note else None))
        ticks = x.ticks(4 if narrow else 7)
        parts = [svg.line(x(t), top, x(t), frame.base, "grid") for t in ticks]
        parts += frame.x_axis(x, ticks, self.x_name)
        if self.note:
            parts += [svg.line(x(0), top, x(0), frame.base, "rule"),
                      svg.text(x(0) + 6, 14, self.note, "note")]  # fmt: skip
        for n, value in enumerate(self.values):
            middle = top + row * n + (row - 10 if narrow else row / 2)
            parts += _interval(value, x, middle, frame)
        return svg.chart(width, frame.height, _describe(self.title, self.values), *parts)


@dataclass(frozen=True)
class BarsChart:
    """Horizontal bars, each with its text at its end."""

    title: str
    values: Sequence[Value]
    max_width: int = 760

    def draw(self, width: int) -> Markup:
        """Return the chart as SVG."""
        width = min(width, self.max_width)
        left = max(len(v.name) for v in self.values) * svg.CHARACTER + 14
        right = max(len(v.text) for v in self.values) * svg.CHARACTER + 14
        largest = max([v.value for v in self.values if known(v.value)] + [1e-12])
        x = Scale(0.0, largest, left, width - right)
        parts = []
        for n, bar in enumerate(self.values):
            top, length = 4 + BAR_ROW * n, max(x(bar.value) - left, 1.5)
            kind = "strong" if bar.strong else "plain"
            parts += [svg.text(left - 10, top + 14, bar.name, f"name {kind}", "end"),
                      svg.box((left, top + 3, length, BAR_ROW - 11), f"bar {kind}",
                              f"{bar.name}: {bar.text}"),
                      svg.text(left + length + 7, top + 14, bar.text, f"value {kind}")]  # fmt: skip
        description = _describe(self.title, self.values)
        return svg.chart(width, BAR_ROW * len(self.values) + 6, description, *parts)


def _describe(title: str, values: Sequence[Value]) -> str:
    return f"{title}: " + "; ".join(f"{value.name} {value.text}" for value in values)


def _interval(one: Value, x: Scale, y: float, frame: svg.Frame) -> list[Markup]:
    """Return the interval; a narrow chart has name and text above it, a wide one beside it."""
    kind = "strong" if one.strong else "plain"
    parts = []
    if known(one.lower) and known(one.upper):
        parts.append(svg.line(x(one.lower), y, x(one.upper), y, f"reach {kind}"))
    parts.append(svg.dot(x(one.value), y, f"mark {kind}", f"{one.name} {one.text}", radius=4))
    line = y - 12 if frame.narrow else y + 4
    name = (svg.text(0, line, one.name, f"name {kind}") if frame.narrow
            else svg.text(frame.left - 12, line, one.name, f"name {kind}", "end"))  # fmt: skip
    return [*parts, name, svg.text(frame.width, line, one.text, f"value {kind}", "end")]
