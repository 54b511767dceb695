"""The average position after re-ranking, by the position at which documents were shown."""

from __future__ import annotations

from typing import Any

from ulr.report.blocks import Figure, Table
from ulr.report.charts.lines import Line, LinesChart
from ulr.report.facts import NIGHT, Facts, Missing, Row, require
from ulr.report.format import count, fixed, known
from ulr.report.metrics import CHAMPION, LOGGING, best_method, subject_name, subjects

METRIC = "position_after"
DRAWN = 4  # models in the figure
Averages = dict[str, dict[int, Row]]  # by model, by position


def context(facts: Facts) -> dict[str, Any]:
    """Return the curve of every model; production itself is the diagonal."""
    require(facts, "metrics", "evaluation")
    averages: Averages = {}
    for row in facts.metrics:
        if row["name"] == METRIC and row["against"] is None and known(row["value"]):
            averages.setdefault(row["subject"], {})[row["position"]] = row
    best = None if facts.kind == NIGHT else best_method(facts)
    ordered = dict.fromkeys(name for name in (best, *subjects(facts)) if name and name != LOGGING)
    models = [name for name in ordered if name in averages]
    if not models:
        raise Missing("No average positions are stored; `ulr evaluate` computes them from clicks.")
    positions = sorted({k for name in models for k in averages[name]})
    lines = [Line("as shown", positions, [float(k) for k in positions], "faint", marks="")]
    lines += [_line(name, averages[name], first=n == 0) for n, name in enumerate(models[:DRAWN])]
    caption = "Average over pages. The dotted line is the order as shown."
    if len(models) > DRAWN:
        caption += f" {DRAWN} of {len(models)} models are drawn; the table has all."
    if CHAMPION in models:
        caption += " A flatter curve means larger moves."
    chart = LinesChart("Average position after re-ranking by position as shown", lines,
                       "position as shown", "average position after re-ranking")  # fmt: skip
    return {"figure": Figure(chart, caption, _table(averages, models, positions))}


def _line(name: str, rows: dict[int, Row], *, first: bool) -> Line:
    positions = sorted(rows)
    band = [(rows[k]["lower"], rows[k]["upper"]) for k in positions] if first else []
    return Line(subject_name(name), positions, [rows[k]["value"] for k in positions],
                "strong" if first else "plain", band=band)  # fmt: skip


def _table(averages: Averages, models: list[str], positions: list[int]) -> Table:
    rows = [[count(k), *(fixed(averages[name].get(k, {}).get("value"), 2) for name in models)]
            for k in positions]  # fmt: skip
    headings = ["position as shown", *(subject_name(n) for n in models)]
    return Table("Average position after re-ranking", headings, rows)
