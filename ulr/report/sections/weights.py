"""The distribution of the pair weights: effective sizes, clipping, largest weight."""

from __future__ import annotations

from typing import Any

from ulr.report.blocks import Cell, Figure, Table
from ulr.report.charts.rows import BarsChart, Value
from ulr.report.facts import NIGHT, Facts, Missing, Row, by_method, require
from ulr.report.format import count, percent, significant
from ulr.report.metrics import best_method

PAIRS, CLIPPED, LARGEST, WEIGHT = (
    "effective_pairs", "share_clipped", "largest_weight", "weight",
)  # fmt: skip
UNITS = ("clicks", "queries")  # of the effective sizes that the gate checks
Health = dict[int | None, dict[str, float]]  # position (None: all), name of the number
DRAWN = 20  # positions in the figure; the table has them all


def context(facts: Facts) -> dict[str, Any]:
    """Return the effective sizes, and the pairs by position for a night, by method otherwise."""
    methods = by_method(facts, require(facts, "weights", "weight health"))
    every = {name: _by_position(rows) for name, rows in methods.items()}
    weighted = {name: rows for name, rows in every.items() if rows.get(None, {}).get(WEIGHT)}
    if not weighted:
        raise Missing("These pairs have no weights from clicks.")
    best = None if facts.kind == NIGHT else best_method(facts)
    model = best if best in weighted else next(iter(weighted))
    overall = weighted[model][None]
    sizes = [_size(facts, unit, overall) for unit in UNITS if f"effective_{unit}" in overall]
    return {
        "model": model,
        "clicks": count(overall.get("clicks")),
        "sizes": sizes,
        "enough": all(size["enough"] for size in sizes),
        "largest": significant(overall.get(LARGEST)),
        "clipped": percent(overall[CLIPPED]) if overall.get(CLIPPED) else None,
        "figure": _figure(facts, weighted, weighted[model]),
    }


def _size(facts: Facts, unit: str, overall: dict[str, float]) -> dict[str, Any]:
    """Return an effective size and the minimum for promotion (None: there is none)."""
    size = overall[f"effective_{unit}"]
    minimum = float(facts.settings.get(f"promote.min_effective_{unit}", 0))
    return {"unit": unit, "size": count(size), "minimum": count(minimum) if minimum else None,
            "enough": size >= minimum}  # fmt: skip


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
    title = f"Effective number of session pairs by {by}"
    return Figure(BarsChart(title, bars), f"{title}.{more}", _table(weighted))


def _bar(name: str, values: dict[str, float]) -> Value:
    return Value(name, values.get(PAIRS, 0.0), str(count(values.get(PAIRS))))


def _table(weighted: dict[str, Health]) -> Table:
    rows: list[list[Cell]] = [
        [name, "all" if k is None else str(k), count(v.get(PAIRS)), percent(v.get(CLIPPED)),
         significant(v.get(LARGEST)), significant(v.get(WEIGHT), 4)]
        for name, health in weighted.items()
        for k, v in sorted(health.items(), key=lambda item: item[0] or 0)
    ]  # fmt: skip
    headings = ["method", "position", "effective pairs", "clipped", "largest weight",
                "total weight"]  # fmt: skip
    return Table("Weight health", headings, rows)
