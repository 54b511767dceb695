"""The set of shown queries, as a bitmap: small enough to be sent to every task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ulr.engine.columns import hashes

_BITS_PER_QUERY = 16  # at most one in 16 other queries is taken for a shown one
_MIN_LOG2, _MAX_LOG2 = 10, 31


class ShownQueries(NamedTuple):
    """A set of queries. bits: uint8, one bit per value of the first `log2` bits of a hash.

    A query of the set is always found. Another query is found with a small probability.
    """

    bits: np.ndarray
    log2: int

    @classmethod
    def of(cls, parts: Sequence[np.ndarray]) -> ShownQueries:
        """Return the set of queries with these hashes (uint64 arrays)."""
        total = sum(part.size for part in parts)
        log2 = int(np.clip(np.ceil(np.log2(_BITS_PER_QUERY * (total + 1))), _MIN_LOG2, _MAX_LOG2))
        queries = cls(np.zeros(1 << (log2 - 3), np.uint8), log2)
        for part in parts:
            byte, bit = queries._places(part)
            np.bitwise_or.at(queries.bits, byte, np.uint8(1) << bit)
        return queries

    def contains(self, query_ids: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Return a bool per query: false only for queries that are not in the set."""
        byte, bit = self._places(hashes(query_ids))
        found: np.ndarray = (self.bits[byte] >> bit) & np.uint8(1)
        return found.astype(bool)

    def _places(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        place = keys >> np.uint64(64 - self.log2)
        return (place >> np.uint64(3)).astype(np.int64), (place & np.uint64(7)).astype(np.uint8)
