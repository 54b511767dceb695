"""A chart as an SVG file of its own, with the colours of the light page."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Protocol

from markupsafe import Markup

from ulr.report.charts import svg

MARGIN = 20


class Chart(Protocol):
    """Anything that can be drawn at a width."""

    def draw(self, width: int) -> Markup:
        """Return the chart as SVG."""


def svg_file(title: str, chart: Chart, height: int) -> str:
    """Return the content of a file. height: of the chart, in pixels."""
    width = svg.WIDTHS[0]
    return svg.chart(
        width + 2 * MARGIN, height + 2 * MARGIN, title,
        svg.element("style", Markup(_light_style())),
        svg.element("rect", width="100%", height="100%", class_="paper"),
        svg.element("g", chart.draw(width), transform=f"translate({MARGIN} {MARGIN})"),
        xmlns="http://www.w3.org/2000/svg",
    ) + "\n"  # fmt: skip


def _light_style() -> str:
    """Return chart.css with the colours of the light page; many viewers have no CSS variables."""
    page, chart = (files("ulr.report").joinpath(name).read_text(encoding="utf-8")
                   for name in ("page.css", "chart.css"))  # fmt: skip
    light = dict(re.findall(r"--([\w-]+): ([^;]+);", page.partition("@media")[0]))
    return re.sub(r"var\(--([\w-]+)\)", lambda match: light[match[1]], chart)
