"""Drawings as inline SVG: the page's own colours, crisp at any size, readable by a screen reader.

Every drawing is made twice, for a wide and for a narrow screen, so that its words keep their size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from ulr.report.html import Html, join, node
from ulr.report.scales import Scale, tick_text

WIDTHS = (760, 358)
CHARACTER = 7.5  # of the figures' letters, on average and in pixels


@dataclass(frozen=True)
class Frame:
    """A drawing's size and the margins around its plot."""

    width: int
    height: int
    left: float
    right: float
    top: float = 12
    bottom: float = 40

    @property
    def narrow(self) -> bool:
        """Whether it is for a phone."""
        return self.width < 500

    def x(self, low: float, high: float) -> Scale:
        """Values across the plot."""
        return Scale(low, high, self.left, self.width - self.right)

    def y(self, low: float, high: float, *, log: bool = False) -> Scale:
        """Values up the plot."""
        return Scale(low, high, self.height - self.bottom, self.top, log)


def drawing(width: float, height: float, alternative: str, *parts: Html) -> Html:
    """The drawing, with the words for those who do not see it."""
    view = f"0 0 {_n(width)} {_n(height)}"
    return node(
        "svg", *parts, viewBox=view, width=_n(width), height=_n(height),
        role="img", aria_label=alternative,
    )  # fmt: skip


def twice(draw: Callable[[int], Html]) -> list[Html]:
    """The drawing at both widths."""
    return [draw(width) for width in WIDTHS]


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    """A straight line."""
    return node("line", x1=_n(x1), y1=_n(y1), x2=_n(x2), y2=_n(y2), class_=class_)


def words(x: float, y: float, content: str, class_: str = "", anchor: str = "start") -> Html:
    """Words at a place; `anchor` is the end of them that stands there."""
    where = None if anchor == "start" else anchor
    return node("text", content, x=_n(x), y=_n(y), class_=class_ or None, text_anchor=where)


def path(points: list[tuple[float, float]], class_: str, *, closed: bool = False) -> Html:
    """A line through the points."""
    steps = " ".join(f"{'L' if n else 'M'}{_n(x)} {_n(y)}" for n, (x, y) in enumerate(points))
    return node("path", d=steps + (" Z" if closed else ""), class_=class_)


def dot(x: float, y: float, class_: str, told: str, *, radius: float = 3.2) -> Html:
    """A round mark; `told` is what it says when pointed at."""
    return node("circle", node("title", told), cx=_n(x), cy=_n(y), r=_n(radius), class_=class_)


def cross(x: float, y: float, class_: str, told: str, *, reach: float = 3.6) -> Html:
    """A mark for what is known from elsewhere."""
    a, b, c, d = (_n(v) for v in (x - reach, y - reach, x + reach, y + reach))
    steps = f"M{a} {b} L{c} {d} M{a} {d} L{c} {b}"
    return node("path", node("title", told), d=steps, class_=class_)


def box(
    x: float, y: float, width: float, height: float, told: str, **more: str | float | None
) -> Html:
    """A rectangle."""
    place = {"x": _n(x), "y": _n(y), "width": _n(width), "height": _n(height)}
    return node("rect", node("title", told), **place, **more)


def axes(
    frame: Frame, x: Scale, y: Scale, *, x_name: str, y_name: str, x_ticks: list[float]
) -> Html:
    """Grid lines across, ticks and names; the name of y stands above its axis, level."""
    parts = []
    for tick in y.ticks(6):
        at = y(tick)
        parts += [line(frame.left, at, frame.width - frame.right, at, "grid"),
                  words(frame.left - 8, at + 4, tick_text(tick), "tick", "end")]  # fmt: skip
    base = frame.height - frame.bottom
    parts += [words(x(tick), base + 18, tick_text(tick), "tick", "middle") for tick in x_ticks]
    middle = (frame.left + frame.width - frame.right) / 2
    parts += [words(middle, base + 36, x_name, "axis", "middle"), words(0, 12, y_name, "axis")]
    return join(*parts)


def apart(places: list[float], gap: float, low: float, high: float) -> list[float]:
    """The places moved as little as it takes to stand `gap` apart, in their order."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = list(places)
    for before, now in pairwise(order):
        moved[now] = max(moved[now], moved[before] + gap)
    over = max((moved[n] for n in order), default=low) - high
    if over > 0:
        ceiling = high
        for n in reversed(order):
            moved[n] = min(moved[n], ceiling)
            ceiling = moved[n] - gap
    return [max(m, low) for m in moved]


def _n(value: float) -> str:
    """A coordinate: a tenth of a pixel is enough."""
    return f"{value:.1f}".removesuffix(".0")
