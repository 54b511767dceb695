"""Which queries a model is judged by and never trained on: a function of their names alone."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa

from ulr.engine.columns import hashes

Part = Literal["all", "train", "test"]


def sample_queries(
    query_ids: pa.ChunkedArray | pa.Array, share: float, purpose: str
) -> np.ndarray:  # fmt: skip
    """A share of the queries by the hash of their name; another purpose, another choice."""
    if len(query_ids) == 0:
        return np.zeros(0, bool)
    seed = hashes(pa.array([purpose]))
    return hashes(query_ids, seed) < np.uint64(min(share, 1 - 2**-53) * 2**64)


def in_split(query_ids: pa.ChunkedArray | pa.Array, share: float, part: Part) -> np.ndarray:
    """True for rows of the queries in the part; `test` takes a share of the hash's range.

    A larger share keeps every query that a smaller one took.
    """
    if part == "all" or len(query_ids) == 0:
        return np.ones(len(query_ids), bool)
    test = sample_queries(query_ids, share, "test")
    return test if part == "test" else ~test
