"""Health of the weights: effective pairs, clipped share, largest (docs/methods.md section 4.5).

Totals by the position of the preferred document; they add over partitions (the largest by max).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ulr.warehouse.schema import metrics_schema


@dataclass(frozen=True)
class WeightHealth:
    """Totals over session pairs, float64 per position: |w|, w^2, |w| before clipping, max |w|."""

    weight: np.ndarray
    square: np.ndarray
    unclipped: np.ndarray
    largest: np.ndarray

    @classmethod
    def empty(cls) -> WeightHealth:
        """Return the health of no weights."""
        return cls(*np.zeros((4, 0)))

    def __add__(self, other: WeightHealth) -> WeightHealth:
        size = max(self.weight.size, other.weight.size)
        a, b = ([np.pad(x, (0, size - x.size)) for x in health.columns] for health in (self, other))
        return WeightHealth(a[0] + b[0], a[1] + b[1], a[2] + b[2], np.maximum(a[3], b[3]))

    def times(self, factor: float) -> WeightHealth:
        """Return the health of the same weights times a factor."""
        return WeightHealth(
            factor * self.weight, factor**2 * self.square, factor * self.unclipped,
            factor * self.largest,
        )  # fmt: skip

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The four totals."""
        return self.weight, self.square, self.unclipped, self.largest

    def rows(self) -> list[tuple[int | None, dict[str, float]]]:
        """Return the metrics of the table (position None), then of each position with weight."""
        largest = self.largest.max(initial=0.0)
        whole = (self.weight.sum(), self.square.sum(), self.unclipped.sum(), largest)
        totals = enumerate(zip(*self.columns, strict=True), start=1)
        return [(None, _metrics(*whole))] + [(k, _metrics(*own)) for k, own in totals if own[2] > 0]


def _metrics(weight: float, square: float, unclipped: float, largest: float) -> dict[str, float]:
    return {
        "effective_pairs": float(weight**2 / square) if square > 0 else 0.0,
        "share_clipped": float(1 - weight / unclipped) if unclipped > 0 else 0.0,
        "largest_weight": float(largest),
        "weight": float(weight),
    }


def health_table(method: str, health: WeightHealth, totals: Mapping[str, float | None]) -> pa.Table:
    """Return rows of `metrics_schema`. totals: further metrics of the table; None: left out."""
    metrics = [
        (position, name, value) for position, own in health.rows() for name, value in own.items()
    ]
    metrics += [(None, name, value) for name, value in totals.items() if value is not None]
    rows = [
        {"stage": "pairs", "subject": method, "position": position, "name": name, "value": value}
        for position, name, value in metrics
    ]
    return pa.Table.from_pylist(rows, schema=metrics_schema)
