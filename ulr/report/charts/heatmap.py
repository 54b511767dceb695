"""A square map of values in 0..1 over pairs of positions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from ulr.report.charts import svg
from ulr.report.format import known

MARGIN = 24  # room for the positions at the left and at the top
MAX_WIDTH, MAX_CELL = 620, 52


@dataclass(frozen=True)
class PairsMap:
    """size x size cells, shaded by value. cells: (row, column) to value and CSS class."""

    description: str
    size: int
    cells: Mapping[tuple[int, int], tuple[float | None, str]]

    def draw(self, width: int) -> Markup:
        """Return the map as SVG; cells with enough room have their value as text."""
        cell = min((min(width, MAX_WIDTH) - MARGIN - 2) / self.size, MAX_CELL)
        parts = []
        for n in range(1, self.size + 1):
            if cell >= 14 or n % 5 == 0 or n == 1:
                middle = MARGIN + cell * (n - 0.5)
                parts += [svg.text(MARGIN - 7, middle + 4, str(n), "tick", "end"),
                          svg.text(middle, MARGIN - 8, str(n), "tick", "middle")]  # fmt: skip
        for (row, column), (value, kind) in sorted(self.cells.items()):
            x, y = MARGIN + cell * (column - 1), MARGIN + cell * (row - 1)
            title = f"({row}, {column}) {kind}" + (f": {value:.4f}" if known(value) else "")
            place = (x + 0.75, y + 0.75, cell - 1.5, cell - 1.5)
            opacity = f"{_opacity(value):.2f}"
            parts.append(svg.box(place, f"cell {kind}", title, rx=2, fill_opacity=opacity))
            if cell >= 27:
                parts.append(svg.text(x + cell / 2, y + cell / 2 + 4, _text(value), _ink(value),
                                      "middle"))  # fmt: skip
        side = MARGIN + cell * self.size
        return svg.chart(side + 2, side + 4, self.description, *parts)


def _opacity(value: float | None) -> float:
    """Return the shade; a square root keeps the small values of deep positions distinct."""
    return 0.05 + 0.95 * math.sqrt(min(max(value, 0.0), 1.0)) if known(value) else 0.0


def _ink(value: float | None) -> str:
    """Return the class of text that is legible on the shade, on light and on dark pages."""
    opacity = round(_opacity(value), 2)
    return "in deep" if opacity > 0.8 else "in middle" if opacity > 0.62 else "in"


def _text(value: float | None) -> str:
    if not known(value):
        return "×"
    if value >= 0.995:
        return "1"
    return f"{value:.{2 if value >= 0.00995 else 3}f}".lstrip("0")
