"""SVG elements. Text is escaped; the colours are classes of chart.css."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from ulr.report.charts.scales import Scale, tick_label
from ulr.report.format import visible

WIDTHS = (760, 358)  # every chart is drawn for a wide and for a narrow screen
NARROW = 500  # charts below this width use the layout for a phone
CHARACTER = 7.5  # average width of a character, in pixels

Attribute = str | float | None


def element(tag: str, *children: str, **attributes: Attribute) -> Markup:
    """Return an element. `class_` and `text_anchor` mean class and text-anchor; None is omitted."""
    written = Markup("").join(
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), _attribute(value))
        for name, value in attributes.items()
        if value is not None
    )
    content = Markup("").join(c if isinstance(c, Markup) else visible(c) for c in children)
    return Markup("<{0}{1}>{2}</{0}>").format(tag, written, content)


def chart(width: float, height: float, description: str, *parts: str, **more: Attribute) -> Markup:
    """Return the svg element of a chart. description: for screen readers."""
    view = f"0 0 {_attribute(width)} {_attribute(height)}"
    return element("svg", *parts, viewBox=view, width=width, height=height, role="img",
                   aria_label=description, **more)  # fmt: skip


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    """Return a straight line of the CSS class `kind`."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def text(x: float, y: float, content: str, kind: str, anchor: str | None = None) -> Markup:
    """Return text at x; anchor: None (it starts there), middle or end."""
    return element("text", content, x=x, y=y, class_=kind, text_anchor=anchor)


def path(points: list[tuple[float, float]], kind: str, *, closed: bool = False) -> Markup:
    """Return a line through the points."""
    steps = (f"{'L' if n else 'M'}{_attribute(x)} {_attribute(y)}"
             for n, (x, y) in enumerate(points))  # fmt: skip
    return element("path", d=" ".join(steps) + (" Z" if closed else ""), class_=kind)


def dot(x: float, y: float, kind: str, title: str, *, radius: float = 3.2) -> Markup:
    """Return a round mark; browsers show the title as a tooltip."""
    return element("circle", element("title", title), cx=x, cy=y, r=radius, class_=kind)


def cross(x: float, y: float, kind: str, title: str, *, size: float = 3.6) -> Markup:
    """Return a diagonal cross; browsers show the title as a tooltip."""
    left, top, right, bottom = map(_attribute, (x - size, y - size, x + size, y + size))
    steps = f"M{left} {top} L{right} {bottom} M{left} {bottom} L{right} {top}"
    return element("path", element("title", title), d=steps, class_=kind)


def box(
    place: tuple[float, float, float, float], kind: str, title: str, **more: Attribute
) -> Markup:
    """Return a rectangle at x, y of a width and height; browsers show the title as a tooltip."""
    x, y, width, height = place
    return element("rect", element("title", title), x=x, y=y, width=width, height=height,
                   class_=kind, **more)  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """The size of a chart and the margins around its plot."""

    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float = 46

    @property
    def narrow(self) -> bool:
        """Whether the chart is for a phone."""
        return self.width < NARROW

    @property
    def base(self) -> float:
        """The y coordinate of the lower edge of the plot."""
        return self.height - self.bottom

    def x(self, low: float, high: float) -> Scale:
        """Return the horizontal scale."""
        return Scale(low, high, self.left, self.width - self.right)

    def y(self, low: float, high: float, *, log: bool = False) -> Scale:
        """Return the vertical scale."""
        return Scale(low, high, self.base, self.top, log)

    def x_axis(
        self,
        x: Scale,
        ticks: Sequence[float],
        name: str,
        texts: Mapping[float, str] | None = None,
    ) -> list[Markup]:
        """Return tick labels and the name below the plot. texts: of ticks, if not the number."""
        middle = (self.left + self.width - self.right) / 2
        named = {tick: tick_label(tick) for tick in ticks} | dict(texts or {})
        labels = [text(x(t), self.base + 18, named[t], "tick", "middle") for t in ticks]
        return [*labels, text(middle, self.base + 36, name, "axis", "middle")]

    def y_axis(self, y: Scale, name: str) -> list[Markup]:
        """Return grid lines with tick labels, and the name above the axis."""
        parts = [text(0, 12, name, "axis")]
        for tick in y.ticks(6):
            at = y(tick)
            parts += [line(self.left, at, self.width - self.right, at, "grid"),
                      text(self.left - 8, at + 4, tick_label(tick), "tick", "end")]  # fmt: skip
        return parts


def spread(places: list[float], gap: float, low: float, high: float) -> list[float]:
    """Move coordinates as little as needed to be `gap` apart within low..high, in their order."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for previous, current in pairwise(order):
        moved[current] = max(moved[current], moved[previous] + gap)
    ceiling = high
    for n in reversed(order):
        moved[n] = min(moved[n], ceiling)
        ceiling = moved[n] - gap
    return [max(m, low) for m in moved]


def _attribute(value: Attribute) -> str:
    """Return the value as text; a tenth of a pixel is precise enough for coordinates."""
    if isinstance(value, int | float):
        return f"{value:.1f}".removesuffix(".0")
    return visible(value or "")
