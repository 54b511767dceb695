"""The distribution of the pair weights: effective sample size, clipping, largest weight."""

from __future__ import annotations

from typing import Any

from ulr.report.blocks import Cell, Figure, Table
from ulr.report.charts.rows import BarsChart, Value
from ulr.report.facts import NIGHT, Facts, Missing, Row, by_method, require
from ulr.report.format import count, percent, significant
from ulr.report.metrics import best_method

SIZE, CLIPPED, LARGEST, WEIGHT = (
    "effective_sample_size", "share_clipped", "largest_weight", "weight",
)  # fmt: skip
Health = dict[int | None, dict[str, float]]  # position (None: all), name of the number
DRAWN = 20  # positions in the figure; the table has them all


def context(facts: Facts) -> dict[str, Any]:
    """Return the effective sample size: by position for a night, by method for a comparison."""
    methods = by_method(facts, require(facts, "weights", "weight health"))
    every = {name: _by_position(rows) for name, rows in methods.items()}
    weighted = {name: rows for name, rows in every.items() if rows.get(None, {}).get(WEIGHT)}
    if not weighted:
        raise Missing("These pairs have no weights from clicks.")
    best = None if facts.kind == NIGHT else best_method(facts)
    model = best if best in weighted else next(iter(weighted))
    overall = weighted[model][None]
    size = overall.get(SIZE)
    minimum = float(facts.settings.get("promote.min_effective_sample_size", 0))
    return {
        "model": model,
        "size": count(size),
        "minimum": count(minimum) if minimum and size is not None else None,
        "enough": size is None or size >= minimum,
        "largest": significant(overall.get(LARGEST)),
        "clipped": percent(overall[CLIPPED]) if overall.get(CLIPPED) else None,
        "figure": _figure(facts, weighted, weighted[model]),
    }


def _by_position(rows: list[Row]) -> Health:
    health: Health = {}
    for row in rows:
        health.setdefault(row["position"], {})[row["name"]] = row["value"]
    return health


def _figure(facts: Facts, weighted: dict[str, Health], own: Health) -> Figure:
    if facts.kind == NIGHT:
        by, positions = "the position of the preferred document", sorted(k for k in own if k)
        bars = [_bar(f"position {k}", own[k]) for k in positions[:DRAWN]]
    else:
        by, positions = "method", []
        bars = [_bar(name, health[None]) for name, health in weighted.items()]
    more = f" The table has all {positions[-1]} positions." if len(positions) > DRAWN else ""
    title = f"Effective sample size by {by}"
    return Figure(BarsChart(title, bars), f"{title}.{more}", _table(weighted))


def _bar(name: str, values: dict[str, float]) -> Value:
    return Value(name, values.get(SIZE, 0.0), str(count(values.get(SIZE))))


def _table(weighted: dict[str, Health]) -> Table:
    rows: list[list[Cell]] = [
        [name, "all" if k is None else str(k), count(v.get(SIZE)), percent(v.get(CLIPPED)),
         significant(v.get(LARGEST)), significant(v.get(WEIGHT), 4)]
        for name, health in weighted.items()
        for k, v in sorted(health.items(), key=lambda item: item[0] or 0)
    ]  # fmt: skip
    headings = ["method", "position", "effective sample size", "clipped", "largest weight",
                "total weight"]  # fmt: skip
    return Table("Weight health", headings, rows)
