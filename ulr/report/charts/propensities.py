"""The estimated examination curves as one SVG file."""

from __future__ import annotations

from collections.abc import Sequence

from ulr.propensity.curve import IMPUTED
from ulr.report.charts.files import svg_file
from ulr.report.charts.lines import Line, LinesChart
from ulr.report.facts import Row, segment_name, segments_of

HEIGHT, COLOURS = 340, 5  # COLOURS: segment-1 .. segment-5 of chart.css


def curve_lines(rows: Sequence[Row], name: str, kind: str) -> list[Line]:
    """Return theta by position with its interval, from rows of the table `propensities`.

    Imputed positions have rings instead of dots.
    """
    positions, theta = [row["position"] for row in rows], [row["theta"] for row in rows]
    band = [(row["lower"], row["upper"]) for row in rows]
    imputed = [row["source"] == IMPUTED for row in rows]
    if not any(imputed):
        return [Line(name, positions, theta, kind, band=band)]
    lines = [Line(name, positions, theta, kind, marks="", band=band)]
    for chosen, marks in ((False, "points"), (True, "rings")):
        own = [x for x, is_imputed in zip(positions, imputed, strict=True) if is_imputed == chosen]
        lines.append(Line("", own, [theta[positions.index(x)] for x in own], kind, marks))
    return lines


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
        lines += curve_lines(own, segment_name(segment), kind)
        theta = {k: v for k, v in true_theta(truth, segment).items() if k <= len(own)}
        if theta:
            lines.append(Line("", list(theta), list(theta.values()), kind, "crosses"))
    title = f"theta by {rows[0]['estimator']}, relative to position 1 (log scale), 95% intervals"
    title += "; rings: imputed" if any(row["source"] == IMPUTED for row in rows) else ""
    title += "; crosses: true values" if truth else ""
    chart = LinesChart(title, lines, "position", title, log=True, height=HEIGHT)
    return svg_file(title, chart, HEIGHT)
