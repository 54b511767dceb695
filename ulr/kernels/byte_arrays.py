"""Byte arrays in Parquet's PLAIN encoding: each is its length (uint32, little-endian) and bytes."""

from __future__ import annotations

import numpy as np

from ulr.kernels.jit import kernel

_LENGTH_BYTES = 4


@kernel(allocates=False)
def longest_byte_array(page: np.ndarray, count: int) -> int:
    """Return the length of the longest of `count` byte arrays, 0 if there are none.

    page: uint8. Returns -1 if they do not fill the page exactly.
    """
    at, longest = np.int64(0), np.int64(0)
    for _ in range(count):
        if page.size - at < _LENGTH_BYTES:
            return -1
        length = (
            np.int64(page[at])
            | np.int64(page[at + 1]) << 8
            | np.int64(page[at + 2]) << 16
            | np.int64(page[at + 3]) << 24
        )
        at += _LENGTH_BYTES
        if length > page.size - at:
            return -1
        at += length
        longest = max(longest, length)
    return int(longest) if at == page.size else -1
