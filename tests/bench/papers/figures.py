"""Figures of a metric, a line for each method."""

from __future__ import annotations

from collections.abc import Sequence

from tests.bench.papers.cells import Results
from tests.bench.papers.methods import Method
from tests.bench.papers.page import HEIGHT, KINDS, Figure
from tests.bench.papers.worlds import World
from ulr.report.charts.lines import Line, LinesChart

Series = tuple[str, Sequence[tuple[World, Method]]]


def metric_figure(
    results: Results,
    series: Sequence[Series],
    ticks: Sequence[str],
    *,
    file: str,
    title: str,
    x_name: str,
    metric: str = "NDCG@10",
) -> Figure:
    """Return a figure of named cells from left to right; ticks: the text below each.

    A series with a cell that was not run is left out. Bands are one standard deviation over seeds.
    """
    lines = []
    for number, (name, cells) in enumerate(series):
        if not all(results.has(*cell) for cell in cells):
            continue
        means = [results.mean(*cell, metric) for cell in cells]
        spreads = [results.spread(*cell, metric) for cell in cells]
        band = [(m - s, m + s) for m, s in zip(means, spreads, strict=True)]
        lines.append(Line(name, list(range(len(cells))), means, KINDS[number], band=band))
    labels = {float(i): text for i, text in enumerate(ticks)}
    chart = LinesChart(title, lines, x_name, metric, height=HEIGHT, x_labels=labels)
    return Figure(file, chart)


def sweep(methods: Sequence[Method], worlds: Sequence[World]) -> list[Series]:
    """Return one series per method over the worlds."""
    return [(method.name, [(world, method) for world in worlds]) for method in methods]
