"""Random draws as functions of what they are for: the same on any worker, in any order."""

from __future__ import annotations

import numpy as np

from ulr.kernels.hashing import GOLDEN, splitmix64


def mix(seed: int, number: int) -> int:
    """A 64-bit number that follows from both (splitmix64)."""
    x = ((seed + 1) * int(GOLDEN) + number * 0xD1B54A32D192ED03) % 2**64
    return int(splitmix64(np.array([x], np.uint64))[0])
