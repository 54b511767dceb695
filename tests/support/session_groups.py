"""Rows of the groups table made of single sessions, and their counts by segment."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.propensity.swap_counts import SwapCounts, counts_of


def group(sessions, *, query="q", segment=None, bucket=None, swapped=None):
    """A row of the groups table from sessions of one length."""
    length = len(sessions[0])
    words = -(-length // 64)
    histogram: dict[int, int] = {}
    for clicks in sessions:
        number = sum(c << i for i, c in enumerate(clicks))
        histogram[number] = histogram.get(number, 0) + 1
    patterns = [
        int(np.uint64(number >> (64 * w) & (2**64 - 1)).astype(np.int64))
        for number in sorted(histogram)
        for w in range(words)
    ]
    return {
        "query_id": query,
        "segment": segment,
        "bucket": bucket,
        "swapped": swapped,
        "ranking": 0,
        "doc_ids": [f"d{i}" for i in range(length)],
        "patterns": patterns,
        "counts": [histogram[n] for n in sorted(histogram)],
    }


def sessions_of(row):
    """The sessions of a row of at most 64 documents, one by one."""
    length = len(row["doc_ids"])
    for word, count in zip(row["patterns"], row["counts"], strict=True):
        for _ in range(count):
            yield [word >> k & 1 for k in range(length)]


def counts_by_segment(rows: pa.Table, positions: int) -> dict[str | None, SwapCounts]:
    """The counts of each segment."""
    names = rows["segment"]
    return {
        name: counts_of(
            rows.filter(pc.is_null(names) if name is None else pc.equal(names, name)), positions
        )
        for name in set(names.to_pylist())
    }
