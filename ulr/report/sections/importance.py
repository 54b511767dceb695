"""How much each feature contributes to the scores of the model."""

from __future__ import annotations

from typing import Any

from ulr.report.blocks import Cell, Code, Figure, Table
from ulr.report.charts.importance import DRAWN, importance_chart
from ulr.report.facts import Facts, Missing, Row, by_method, require
from ulr.report.format import count, percent, signed, significant

ROWS = 100  # features in the table


def context(facts: Facts) -> dict[str, Any]:
    """Return the features of the first model that has them."""
    trainings = by_method(facts, require(facts, "trainings", "training"))
    found = ((name, record["importance"]) for name, record in trainings.items()
             if (record.get("importance") or {}).get("features"))  # fmt: skip
    name, importance = next(found, (None, None))
    if name is None or importance is None:
        raise Missing("The importance of the features was not computed with this training.")
    features = importance["features"]
    number = importance.get("number", len(features))
    caption = f"The {DRAWN} features with the largest contribution." if number > DRAWN else ""
    return {
        "model": name,
        "linear": importance["linear"],
        "documents": count(importance["rows"]),
        "figure": Figure(importance_chart(importance, name), caption, _table(importance, name)),
        "left": number - min(len(features), ROWS),
    }


def _table(importance: Row, name: str) -> Table:
    features = importance["features"][:ROWS]
    title = f"Features of {name}"
    if importance["linear"]:
        weights: list[list[Cell]] = [
            [Code(row["feature"]), significant(row["contribution"]), signed(row["weight"], 6)]
            for row in features
        ]
        return Table(title, ["feature", "contribution", "weight"], weights)
    total = importance.get("gain") or sum(row["gain"] or 0.0 for row in features) or 1.0
    rows: list[list[Cell]] = [
        [Code(row["feature"]), significant(row["contribution"]), signed(row["direction"], 2),
         percent((row["gain"] or 0.0) / total), count(row["split"])]
        for row in features
    ]  # fmt: skip
    return Table(title, ["feature", "contribution", "direction", "gain", "splits"], rows)
