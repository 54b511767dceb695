"""The set of shown queries, 10 bytes each, which is sent to the tasks that read features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ulr.engine.columns import hashes

_BITS_PER_QUERY = 16  # the bitmap rules out 15 of 16 other queries without a search
_MIN_LOG2, _MAX_LOG2 = 10, 31


class ShownQueries(NamedTuple):
    """A set of queries by their 64-bit hashes.

    keys: uint64, sorted. bits: uint8, one bit per value of the first `log2` bits of a hash.
    """

    keys: np.ndarray
    bits: np.ndarray
    log2: int

    @classmethod
    def of(cls, parts: Sequence[np.ndarray]) -> ShownQueries:
        """Return the set of queries with these hashes (uint64 arrays)."""
        keys = np.unique(np.concatenate([np.zeros(0, np.uint64), *parts]))
        log2 = np.ceil(np.log2(_BITS_PER_QUERY * (keys.size + 1)))
        log2 = int(np.clip(log2, _MIN_LOG2, _MAX_LOG2))
        queries = cls(keys, np.zeros(1 << (log2 - 3), np.uint8), log2)
        byte, bit = queries._places(keys)
        np.bitwise_or.at(queries.bits, byte, np.uint8(1) << bit)
        return queries

    def contains(self, query_ids: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Return a bool per query: whether its hash is in the set."""
        hashed = hashes(query_ids)
        byte, bit = self._places(hashed)
        found = ((self.bits[byte] >> bit) & np.uint8(1)).astype(bool)
        at = np.flatnonzero(found)
        place = np.searchsorted(self.keys, hashed[at])
        found[at] = self.keys[np.minimum(place, self.keys.size - 1)] == hashed[at]
        return found

    def _places(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = keys >> np.uint64(64 - self.log2)
        return (place >> np.uint64(3)).astype(np.int64), (place & np.uint64(7)).astype(np.uint8)
