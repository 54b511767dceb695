"""Bars of several quantities side by side, one row for each name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ulr.report.charts import svg
from ulr.report.format import known

ROW, NARROW_ROW, TOP, GAP = 22, 36, 26, 18  # pixels
NAME = 32  # characters of a name that are drawn


@dataclass(frozen=True)
class Panel:
    """A quantity: a value and a text for each row, each value drawn relative to the largest one."""

    title: str
    values: Sequence[float | None]
    texts: Sequence[str]


@dataclass(frozen=True)
class PanelsChart:
    """Panels over the same names; the first panel is drawn in the accent colour."""

    title: str
    names: Sequence[str]
    panels: Sequence[Panel]

    def height(self, *, narrow: bool = False) -> int:
        """Return the height in pixels."""
        return TOP + (NARROW_ROW if narrow else ROW) * len(self.names) + 6

    def draw(self, width: int) -> Markup:
        """Return the chart as SVG; names are beside the bars, or above them on a narrow one."""
        narrow = width < svg.NARROW
        names = [_short(name) for name in self.names]
        left = 0 if narrow else max(map(len, names)) * svg.CHARACTER + 14
        each = (width - left - GAP * (len(self.panels) - 1)) / len(self.panels)
        parts = [svg.text(0 if narrow else left - 10, self._row(n, narrow=narrow) + 14, name,
                          "name plain", None if narrow else "end")
                 for n, name in enumerate(names)]  # fmt: skip
        for number, panel in enumerate(self.panels):
            parts += self._panel(panel, left + number * (each + GAP), each, narrow=narrow,
                                 kind="plain" if number else "strong")  # fmt: skip
        return svg.chart(width, self.height(narrow=narrow), self._description(), *parts)

    def _panel(
        self, panel: Panel, left: float, width: float, *, narrow: bool, kind: str
    ) -> list[Markup]:
        largest = max([value for value in panel.values if known(value)] + [1e-300])
        parts = [svg.text(left, 14, panel.title, "axis")]
        for n, (name, value, text) in enumerate(
            zip(self.names, panel.values, panel.texts, strict=True)
        ):
            length = max(width * value / largest, 0.0) if known(value) else 0.0
            top = self._row(n, narrow=narrow) + (20 if narrow else 4)
            parts.append(svg.box((left, top, max(length, 0.5), ROW - 9), f"bar {kind}",
                                 f"{name}, {panel.title}: {text}"))  # fmt: skip
        return parts

    def _row(self, number: int, *, narrow: bool) -> int:
        return TOP + (NARROW_ROW if narrow else ROW) * number

    def _description(self) -> str:
        texts = ("; ".join(f"{name} {text}" for name, text in zip(self.names, p.texts, strict=True))
                 for p in self.panels)  # fmt: skip
        parts = (f"{panel.title}: {text}" for panel, text in zip(self.panels, texts, strict=True))
        return f"{self.title}. " + ". ".join(parts)


def _short(name: str) -> str:
    return name if len(name) <= NAME else f"{name[: NAME - 1]}…"
