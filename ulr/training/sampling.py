"""Random draws as functions of the iteration: the same on any rank, and in a resumed run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ulr.kernels.hashing import GOLDEN, splitmix64


def derive_seed(seed: int, number: int) -> int:
    """Return a 64-bit seed that depends on both numbers."""
    x = ((seed + 1) * int(GOLDEN) + number * 0xD1B54A32D192ED03) % 2**64
    return int(splitmix64(np.array([x], np.uint64))[0])


@dataclass(frozen=True)
class Bag:
    """A fraction of the queries, drawn every `every` iterations; 0 means all queries."""

    fraction: float = 1.0
    every: int = 0
    seed: int = 3

    def contains(self, keys: np.ndarray, iteration: int) -> np.ndarray | None:
        """Return whether each query is in the bag of an iteration, from 0; None: all are.

        keys: uint64, a hash of each query's name.
        """
        if self.every <= 0 or self.fraction >= 1.0:
            return None
        seed = np.uint64(derive_seed(self.seed, iteration // self.every))
        return splitmix64(keys ^ seed) < np.uint64(int(self.fraction * 2**64))
