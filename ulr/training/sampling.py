"""Random draws as functions of what they are for: the same on any worker, in any order."""

from __future__ import annotations

import numpy as np

_MASK = 2**64 - 1


def mix(seed: int, number: int) -> int:
    """A 64-bit number that follows from both (splitmix64)."""
    x = (seed * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03 + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def scramble(x: np.ndarray) -> np.ndarray:
    """The finish of `mix` for an array of uint64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
