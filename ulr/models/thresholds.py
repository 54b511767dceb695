"""Thresholds as float32, so that engines that compare float32 values agree with LightGBM.

Features are float32 and LightGBM's thresholds are float64. A feature is at most a threshold if and
only if it is at most the largest float32 not above it, so the replacement changes no score.
LightGBM reads features of a magnitude up to 1e-35 as 0. Other engines compare them, so thresholds
in that range move to its ends.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

_ZERO = np.float32(1e-35)  # LightGBM's kZeroThreshold
_BELOW = np.nextafter(-_ZERO, np.float32(-np.inf))
# The float32 thresholds that separate what is read as 0 from what is above and below it.
ZERO, BELOW_ZERO = float(_ZERO), float(_BELOW)


def float32_thresholds(thresholds: np.ndarray) -> np.ndarray:
    """Return thresholds (float64) of which `x <= t` has the same value for every float32 feature x.

    Each is a float32, except those below the lowest finite one: LightGBM's text has no -inf.
    """
    with np.errstate(over="ignore"):
        rounded = thresholds.astype(np.float32)
        below = np.nextafter(rounded, np.float32(-np.inf))
    floor = np.where(rounded > thresholds, below, rounded)
    floor = np.where((floor >= -_ZERO) & (floor < 0), _BELOW, floor)
    floor = np.where((floor >= 0) & (floor < _ZERO), _ZERO, floor)
    return np.where(np.isneginf(floor), thresholds, floor.astype(np.float64))


@lru_cache(maxsize=1 << 18)
def next_above(threshold: float) -> float:
    """Return the next float32 above a float32 threshold, for engines that test `x < t`.

    2^128, which is infinite as float32, above the largest finite one: JSON has no infinity. Such
    an engine has no threshold that an infinite feature is below.
    """
    with np.errstate(over="ignore"):
        following = float(np.nextafter(np.float32(threshold), np.float32(np.inf)))
    return min(following, 2.0**128)
