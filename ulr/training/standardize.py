"""Centre and scale of features, from the sample of rows that trees take their bins from.

The sample depends on the names of the queries only, so that all workers have the same values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Standardization:
    """Mean and standard deviation of each feature, float64; a scale of 0 is replaced by 1."""

    centre: np.ndarray
    scale: np.ndarray

    @property
    def width(self) -> int:
        """Number of features."""
        return self.centre.size

    def apply(self, features: np.ndarray) -> np.ndarray:
        """Return (features - centre) / scale (float32, rows x width); a missing value is 0."""
        with np.errstate(invalid="ignore", over="ignore"):
            values = ((features - self.centre) / self.scale).astype(np.float32)
        values[~np.isfinite(values)] = 0.0
        return values

    def raw_weights(self, weights: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the weights of raw features and the constant that give the same scores.

        weights: float64, of standardised features.
        """
        raw = weights / self.scale
        return raw, -float(np.sum(raw * self.centre))


def standardization_of(sample: np.ndarray) -> Standardization:
    """Return centre and scale of a sample (float32, rows x width) without its missing values."""
    finite = np.isfinite(sample)
    counts = np.maximum(finite.sum(axis=0), 1)
    centre = np.where(finite, sample, 0.0).sum(axis=0, dtype=np.float64) / counts
    apart = np.where(finite, sample - centre, 0.0)
    scale = np.sqrt(np.square(apart).sum(axis=0) / counts)
    # Rounding leaves a constant column a scale that is tiny but not 0.
    constant = scale <= 1e-7 * np.abs(centre)
    return Standardization(centre, np.where(constant, 1.0, scale))
