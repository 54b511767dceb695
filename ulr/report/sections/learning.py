"""The learning curves of the trainings, and the biases learned beside the model."""

from __future__ import annotations

from typing import Any

from ulr.report.blocks import Figure, Table
from ulr.report.charts.lines import Line, LinesChart
from ulr.report.facts import Facts, Row, by_method, require
from ulr.report.format import count, fixed, significant
from ulr.report.metrics import metric_name

POINTS, ROWS = 240, 60  # at most, of a curve and of its table
DRAWN = 12  # methods


def context(facts: Facts) -> dict[str, Any]:
    """Return the curves of every method, each with its own scale."""
    trainings = by_method(facts, require(facts, "trainings", "training"))
    return {
        "several": len(trainings) > 1,
        "trainings": [_training(n, record) for n, record in list(trainings.items())[:DRAWN]],
        "left": len(trainings) - DRAWN,
        "learns_bias": any(record.get("t_plus") for record in trainings.values()),
    }


def _training(name: str, record: Row) -> dict[str, Any]:
    return {
        "name": name,
        **{key: count(record.get(key)) for key in ("trees", "rows", "pairs", "queries")},
        "has_counts": bool(record.get("rows")),
        "failures": record.get("failures") or [],
        "curves": [_learning_curve(name, metric, values, record.get("trees"))
                   for metric, values in (record.get("validation") or {}).items()],
        "bias": _bias(name, record) if record.get("t_plus") else None,
    }  # fmt: skip


def _learning_curve(name: str, metric: str, values: list[float], trees: int | None) -> Figure:
    drawn, listed = (_evenly(len(values), most) for most in (POINTS, ROWS))
    line = Line("", [n + 1 for n in drawn], [values[n] for n in drawn], marks="")
    chart = LinesChart(f"{metric} of {name} by iteration, {trees} trees kept", [line], "iteration",
                       f"{metric_name(metric)} on validation queries", height=240,
                       rule=(trees, f"trees kept: {trees}") if trees else None)  # fmt: skip
    caption = "Validation after each iteration; trees after the best iteration are discarded."
    if len(listed) < len(values):
        caption += f" The table shows {len(listed)} of {len(values)} iterations."
    rows = [[count(n + 1), significant(values[n], 6)] for n in listed]
    return Figure(chart, caption, Table(f"Validation of {name}", ["iteration", metric], rows))


def _evenly(size: int, most: int) -> list[int]:
    """Return at most so many indices, evenly spaced, the first and the last included."""
    if size <= most:
        return list(range(size))
    return sorted({round(n * (size - 1) / (most - 1)) for n in range(most)})


def _bias(name: str, record: Row) -> Figure:
    plus, minus = record["t_plus"], record["t_minus"]
    positions = list(range(1, len(plus) + 1))
    lines = [Line("t+", positions, plus), Line("t−", positions, minus, "plain")]
    rows = [[count(k), fixed(p), fixed(m)] for k, p, m in zip(positions, plus, minus, strict=True)]
    return Figure(
        LinesChart("Learned biases by position", lines, "position", "bias, relative to position 1",
                   height=260),
        "t+ is the ratio of clicks to relevance at a position, t− the ratio of missing clicks to "
        "irrelevance; both relative to position 1.",
        Table(f"Learned biases of {name}", ["position", "t+", "t−"], rows),
    )  # fmt: skip
