"""The estimated examination curves as one SVG file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files

from markupsafe import Markup

from ulr.report.charts import svg
from ulr.report.charts.lines import Line, LinesChart
from ulr.report.facts import Row, segment_name, segments_of

HEIGHT, MARGIN, COLOURS = 340, 20, 5  # COLOURS: segment-1 .. segment-5 of chart.css


def curve_line(rows: Sequence[Row], name: str, kind: str) -> Line:
    """Return theta by position with its interval, from rows of the table `propensities`."""
    return Line(name, [row["position"] for row in rows], [row["theta"] for row in rows], kind,
                band=[(row["lower"], row["upper"]) for row in rows])  # fmt: skip


def true_theta(truth: Sequence[Row], segment: str | None) -> dict[int, float]:
    """Return the simulator's theta by position, relative to position 1; empty without one."""
    theta = {r["k"]: r["psi"] for r in truth if r["segment"] == segment and r["k"] == r["l"]}
    return {k: value / theta[1] for k, value in sorted(theta.items())} if theta.get(1) else {}


def propensities_svg(rows: Sequence[Row], truth: Sequence[Row] = ()) -> str:
    """Return an SVG file with one curve per segment, 95% intervals, and the truth as crosses.

    rows: of the table `propensities`; truth: of the simulator's `examination.parquet`.
    """
    lines = []
    for number, segment in enumerate(segments_of(rows)):
        own = [row for row in rows if row["segment"] == segment]
        kind = f"segment-{(number - 1) % COLOURS + 1}" if number else "strong"
        lines.append(curve_line(own, segment_name(segment), kind))
        theta = {k: v for k, v in true_theta(truth, segment).items() if k <= len(own)}
        if theta:
            lines.append(Line("", list(theta), list(theta.values()), kind, "crosses"))
    title = f"theta by {rows[0]['estimator']}, relative to position 1 (log scale), 95% intervals"
    title += "; crosses: true values" if truth else ""
    width, height = svg.WIDTHS[0], HEIGHT
    chart = LinesChart(title, lines, "position", title, log=True, height=height)
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
