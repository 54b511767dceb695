"""The methods of a comparison side by side, with their intervals."""

from __future__ import annotations

from typing import Any

from ulr.report import metrics
from ulr.report.blocks import Cell, Figure, Table
from ulr.report.charts.rows import IntervalsChart, Value
from ulr.report.facts import Facts, Missing, Row, require
from ulr.report.format import (
    UNKNOWN,
    Number,
    count,
    fixed,
    interval,
    known,
    p_value,
    percent,
    signed,
)

MEANING = {
    metrics.LABELS: "labels is trained on the golden labels: the upper bound",
    metrics.NAIVE: "naive uses clicks without correction",
    metrics.LOGGING: "production is the ranking that users saw",
}


def context(facts: Facts) -> dict[str, Any]:
    """Return every method's value of the metric that decides, the best first."""
    require(facts, "metrics", "evaluation")
    metric = metrics.metric_name(facts.metric)
    every = {name: metrics.values(facts, name) for name in metrics.subjects(facts)}
    rows = {name: own[facts.metric] for name, own in every.items() if facts.metric in own}
    if not rows:
        raise Missing(f"No method has a value of {metric}.")
    sign = metrics.sign(facts.metric)
    names = sorted(rows, key=lambda name: -sign * rows[name]["value"])
    return {
        "metric": metric,
        "better": metrics.better(facts.metric),
        "queries": count(max(row["queries"] or 0 for row in rows.values())),
        "kind": metrics.evaluation_queries(facts),
        "figure": _figure(facts, metric, {name: rows[name] for name in names}),
        "differences": _differences(facts, names),
    }


def _figure(facts: Facts, metric: str, rows: dict[str, Row]) -> Figure:
    best = metrics.best_method(facts)
    values = [
        Value(metrics.subject_name(name), row["value"], str(fixed(row["value"])),
              strong=name == best, lower=row["lower"], upper=row["upper"])
        for name, row in rows.items()
    ]  # fmt: skip
    meanings = [text for name, text in MEANING.items() if name in rows]
    caption = "Best at the top. " + "; ".join(meanings) + ("." if meanings else "")
    unknown = [name for name in metrics.subjects(facts) if name not in rows]
    if unknown:
        caption += f" Without a value of {metric}: {', '.join(map(metrics.subject_name, unknown))}."
    chart = IntervalsChart(f"{metric} by method", values, metric)
    return Figure(chart, caption, _table(facts, [*rows, *unknown]))


def _table(facts: Facts, names: list[str]) -> Table:
    listed = list(dict.fromkeys(m for name in names for m in metrics.metrics_of(facts, name)))
    gaps = {name: metrics.gap_closed(facts, name, facts.metric) for name in names}
    has_gap = any(gap is not None for gap in gaps.values())
    rows: list[list[Cell]] = []
    for name in names:
        own = metrics.values(facts, name)
        rows.append([metrics.subject_name(name), *(_half_interval(own.get(m)) for m in listed),
                     *([percent(gaps[name], 0)] if has_gap else [])])  # fmt: skip
    headings = ["method", *map(metrics.metric_name, listed), *(["gap closed"] if has_gap else [])]
    return Table("Every metric ± half its 95% interval", headings, rows)


def _half_interval(row: Row | None) -> Number:
    if row is None:
        return UNKNOWN
    half = f" ±{row['value'] - row['lower']:.4f}" if known(row["lower"]) else ""
    return Number(row["value"], f"{row['value']:.4f}{half}")


def _differences(facts: Facts, names: list[str]) -> Table:
    rows: list[list[Cell]] = [
        [metrics.subject_name(method), metrics.subject_name(rival), signed(row["value"]),
         interval(row["lower"], row["upper"], sign=True), p_value(row["p_value"])]
        for method in names for rival in names
        if (row := metrics.values(facts, method, rival).get(facts.metric))
    ]  # fmt: skip
    return Table(f"Differences in {metrics.metric_name(facts.metric)}",
                 ["method", "compared with", "difference", "95% interval", "p"], rows)  # fmt: skip
