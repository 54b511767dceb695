"""The latest row of each key, where rows of one time are ordered by a hash of their content."""

from __future__ import annotations

import numpy as np

from ulr.kernels.jit import kernel


@kernel()
def latest_rows(
    key: np.ndarray, keys: int, time: np.ndarray, content: np.ndarray, count: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of each key that is the largest by (time, content), and its count.

    key: int64, the number of each row's key, from 0 to keys - 1. time: int64. content: uint64.
    count: int64; those of rows that are equal in key, time and content are added up. Both results
    are int64, one per key, and do not depend on the order of the rows beyond which of equal rows
    is returned.
    """
    row = np.full(keys, np.int64(-1))
    total = np.zeros(keys, np.int64)
    for i in range(key.size):
        k = key[i]
        r = row[k]
        if r >= 0:
            if time[i] == time[r] and content[i] == content[r]:
                total[k] += count[i]
                continue
            if time[i] < time[r] or (time[i] == time[r] and content[i] < content[r]):
                continue
        row[k] = i
        total[k] = count[i]
    return row, total
