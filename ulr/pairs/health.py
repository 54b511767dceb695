"""How far weights can be trusted: effective sample size, clipped share, largest weight.

Totals per position of the preferred document; they add over partitions (the largest by max).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class WeightHealth:
    """Per position, over session pairs: sum |w|, sum w^2, sum |w| before clipping, max |w|."""

    weight: np.ndarray
    square: np.ndarray
    unclipped: np.ndarray
    largest: np.ndarray

    def __add__(self, other: WeightHealth) -> WeightHealth:
        """Totals of both; the shorter is taken to have seen nothing deeper."""
        size = max(self.weight.size, other.weight.size)
        a, b = ([_padded(x, size) for x in h.columns] for h in (self, other))
        return WeightHealth(a[0] + b[0], a[1] + b[1], a[2] + b[2], np.maximum(a[3], b[3]))

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The four totals."""
        return self.weight, self.square, self.unclipped, self.largest

    def rows(self) -> list[dict[str, float | int | None]]:
        """One row for the table (position None), then one per position that has weight."""
        largest = self.largest.max(initial=0.0)
        whole = (self.weight.sum(), self.square.sum(), self.unclipped.sum(), largest)
        listed = [(None, *whole)]
        listed += [(k + 1, *v) for k, v in enumerate(zip(*self.columns, strict=True)) if v[2] > 0]
        return [_finish(*row) for row in listed]


def read_health(totals: Sequence[Sequence[float]]) -> WeightHealth:
    """From the four totals as lists."""
    return WeightHealth(*(np.array(t, float) for t in totals))


def _finish(
    position: int | None, weight: float, square: float, unclipped: float, largest: float
) -> dict[str, float | int | None]:
    return {
        "position": position,
        "effective_sample_size": float(weight**2 / square) if square > 0 else 0.0,
        "share_clipped": float(1 - weight / unclipped) if unclipped > 0 else 0.0,
        "largest_weight": float(largest),
        "weight": float(weight),
    }


def _padded(values: np.ndarray, size: int) -> np.ndarray:
    return np.pad(values, (0, size - values.size))
