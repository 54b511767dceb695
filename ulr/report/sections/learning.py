"""The learning curves of the trainings, and the biases learned beside the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ulr.report.blocks import Cell, Code, Figure, Table
from ulr.report.charts.lines import Line, LinesChart
from ulr.report.facts import Facts, Row, by_method, require
from ulr.report.format import Number, count, fixed, significant
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
        "learns_bias": any(_learned(record) for record in trainings.values()),
    }


def _training(name: str, record: Row) -> dict[str, Any]:
    return {
        "name": name,
        **{key: count(record.get(key)) for key in ("trees", "rows", "pairs", "queries")},
        "has_counts": bool(record.get("rows")),
        "failures": record.get("failures") or [],
        "warnings": record.get("warnings") or [],
        "choice": _choice(name, record.get("choice")),
        "curves": [_learning_curve(name, metric, values, record.get("trees"))
                   for metric, values in (record.get("validation") or {}).items()],
        "bias": _bias(name, record) if _learned(record) else None,
    }  # fmt: skip


def _choice(name: str, choice: Row | None) -> dict[str, Any] | None:
    """Return what method auto chose, and a table of the trials behind it."""
    if choice is None:
        return None
    headings = ["method", "leaves", "trees", "held-out loss", "difference", "standard error"]
    losses = ("loss", "difference", "standard_error")
    rows: list[list[Cell]] = [
        [Code(t["method"]), count(t["num_leaves"]), count(t["trees"]), *_losses(t, losses)]
        for t in choice["trials"]
    ]
    table = Table(f"Trials of {name}", headings, rows) if rows else None
    chosen = {key: choice[key] for key in ("method", "num_leaves", "reason")}
    return {**chosen, "table": table}


def _losses(trial: Row, names: Sequence[str]) -> list[Number]:
    return [significant(trial[name], 4) for name in names]


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


def _learned(record: Row) -> dict[str, list[float]]:
    """Return the learned biases of a training by their names on the page; empty: none."""
    names = {"t+": "t_plus", "t−": "t_minus", "examination": "position_bias"}
    return {name: record[key] for name, key in names.items() if record.get(key)}


def _bias(name: str, record: Row) -> Figure:
    learned = _learned(record)
    positions = list(range(1, len(next(iter(learned.values()))) + 1))
    lines = [
        Line(bias, positions, values, "plain" if bias == "t−" else "strong")
        for bias, values in learned.items()
    ]
    rows = [
        [count(k), *map(fixed, values)]
        for k, *values in zip(positions, *learned.values(), strict=True)
    ]
    meaning = "The examination learned with the trees, relative to position 1."
    if "t+" in learned:
        meaning = (
            "t+ is the ratio of clicks to relevance at a position, t− the ratio of missing "
            "clicks to irrelevance; both relative to position 1."
        )
    return Figure(
        LinesChart("Learned biases by position", lines, "position", "bias, relative to position 1",
                   height=260),
        meaning,
        Table(f"Learned biases of {name}", ["position", *learned], rows),
    )  # fmt: skip
