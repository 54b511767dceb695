"""Thresholds as float32, so that engines that compare float32 values agree with LightGBM.

Features are float32 and LightGBM's thresholds are float64. A feature is at most a threshold if and
only if it is at most the largest float32 not above it, so the replacement changes no score.
LightGBM reads features of a magnitude up to 1e-35 as 0. Other engines compare them, so thresholds
in that range move to its ends.
"""

from __future__ import annotations

import numpy as np

ZERO = np.float32(1e-35)  # LightGBM's kZeroThreshold
_BELOW_ZERO = np.nextafter(-ZERO, np.float32(-np.inf))


def float32_thresholds(thresholds: np.ndarray) -> np.ndarray:
    """Return thresholds (float64) of which `x <= t` has the same value for every float32 feature x.

    Each is a float32, except those below the lowest finite one: LightGBM's text has no -inf.
    """
    with np.errstate(over="ignore"):
        rounded = thresholds.astype(np.float32)
        below = np.nextafter(rounded, np.float32(-np.inf))
    floor = np.where(rounded > thresholds, below, rounded)
    floor = np.where((floor >= -ZERO) & (floor < 0), _BELOW_ZERO, floor)
    floor = np.where((floor >= 0) & (floor < ZERO), ZERO, floor)
    return np.where(np.isneginf(floor), thresholds, floor.astype(np.float64))


def above(thresholds: np.ndarray) -> np.ndarray:
    """Return the next float32 above each threshold, for engines that test `x < t`; as float64.

    2^128, which is infinite as float32, above the largest finite one: JSON has no infinity.
    """
    with np.errstate(over="ignore"):
        floor = float32_thresholds(thresholds).astype(np.float32)
        following = np.nextafter(floor, np.float32(np.inf)).astype(np.float64)
    return np.minimum(following, 2.0**128)
