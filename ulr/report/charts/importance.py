"""The importance of features, on the page and as an SVG file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ulr.report.charts.files import svg_file
from ulr.report.charts.panels import Panel, PanelsChart
from ulr.report.facts import Row
from ulr.report.format import count, percent, signed, significant

DRAWN = 20  # features


def importance_chart(importance: Mapping[str, Any], name: str) -> PanelsChart:
    """Return the chart of a model's features. importance: of the training record."""
    features: list[Row] = importance["features"]
    drawn = features[:DRAWN]
    contribution = Panel(
        "contribution", [row["contribution"] for row in drawn],
        [str(significant(row["contribution"])) for row in drawn],
    )  # fmt: skip
    title = f"Importance of the features of {name}"
    names = [row["feature"] for row in drawn]
    if importance["linear"]:
        weights = [row["weight"] for row in drawn]
        panel = Panel("|weight|", [None if w is None else abs(w) for w in weights],
                      [str(signed(w)) for w in weights])  # fmt: skip
        return PanelsChart(title, names, [contribution, panel])
    total = importance.get("gain") or sum(row["gain"] or 0.0 for row in features) or 1.0
    gain = [(row["gain"] or 0.0) / total for row in drawn]
    return PanelsChart(title, names, [
        contribution,
        Panel("gain", gain, [str(percent(value)) for value in gain]),
        Panel("splits", [row["split"] for row in drawn],
              [str(count(row["split"])) for row in drawn]),
    ])  # fmt: skip


def importance_svg(importance: Mapping[str, Any], name: str) -> str:
    """Return the chart as an SVG file."""
    chart = importance_chart(importance, name)
    return svg_file(chart.title, chart, chart.height())
