"""Byte arrays in Parquet's PLAIN encoding: each is its length (uint32, little-endian) and bytes."""

from __future__ import annotations

import numpy as np

from ulr.kernels.jit import kernel


@kernel(allocates=False)
def longest_byte_array(page: np.ndarray, count: int) -> int:
    """Return the length of the longest of `count` byte arrays, 0 if there are none.

    page: uint8. Returns -1 if they do not fill the page exactly. Indices are unsigned: numba then
    omits the case of negative ones, and the four bytes of a length become one load.
    """
    size, at, longest = np.uint64(page.size), np.uint64(0), np.uint64(0)
    for _ in range(count):
        if size - at < np.uint64(4):
            return -1
        length = np.uint64(
            np.uint32(page[at])
            | np.uint32(page[at + np.uint64(1)]) << np.uint32(8)
            | np.uint32(page[at + np.uint64(2)]) << np.uint32(16)
            | np.uint32(page[at + np.uint64(3)]) << np.uint32(24)
        )
        at += np.uint64(4)
        if length > size - at:
            return -1
        at += length
        longest = max(longest, length)
    return int(np.int64(longest)) if at == size else -1
