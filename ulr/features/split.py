"""Train and test queries, chosen by a hash of the query id alone."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa

from ulr.engine.columns import hashes

Split = Literal["all", "train", "test"]


def sample_queries(
    query_ids: pa.ChunkedArray | pa.Array, fraction: float, purpose: str
) -> np.ndarray:
    """Return a bool per row: whether its query is in a sample; each purpose has its own sample.

    A larger fraction contains every query of a smaller one.
    """
    if len(query_ids) == 0:
        return np.zeros(0, bool)
    seed = hashes(pa.array([purpose]))
    return hashes(query_ids, seed) < np.uint64(min(fraction, 1 - 2**-53) * 2**64)


def in_split(
    query_ids: pa.ChunkedArray | pa.Array, test_fraction: float, split: Split
) -> np.ndarray:
    """Return a bool per row: whether its query is in the split."""
    if split == "all":
        return np.ones(len(query_ids), bool)
    test = sample_queries(query_ids, test_fraction, "test")
    return test if split == "test" else ~test
