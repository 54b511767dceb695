"""What a page's lists say: repeated documents, and its clicks packed into 64-bit words."""

from __future__ import annotations

import numpy as np
from numba import njit

WORD = 64


@njit(cache=True, nogil=True)
def has_duplicates(starts: np.ndarray, lengths: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Whether a list names the same word twice. words: uint64, one per element."""
    n = starts.size
    out = np.zeros(n, np.bool_)
    for i in range(n):
        start, end = starts[i], starts[i] + lengths[i]
        if end - start > WORD:
            ordered = np.sort(words[start:end])
            out[i] = np.any(ordered[1:] == ordered[:-1])
            continue
        for a in range(start + 1, end):
            for b in range(start, a):
                if words[a] == words[b]:
                    out[i] = True
    return out


@njit(cache=True, nogil=True)
def pack_clicks(starts: np.ndarray, lengths: np.ndarray, bits: np.ndarray) -> tuple:
    """Pack each page's click bits into ceil(length / 64) words.

    starts: int64, index of each page's first bit; bits: uint8 bitmap, least significant bit first.
    Returns word_offsets (int64, n + 1) and words (int64).
    """
    n = starts.size
    word_offsets = np.zeros(n + 1, np.int64)
    for i in range(n):
        word_offsets[i + 1] = word_offsets[i] + (lengths[i] + WORD - 1) // WORD
    words = np.zeros(word_offsets[n], np.int64)
    for i in range(n):
        at = word_offsets[i]
        for k in range(lengths[i]):
            bit = starts[i] + k
            if bits[bit >> 3] >> (bit & 7) & 1:
                words[at + k // WORD] |= np.int64(1) << np.int64(k % WORD)
    return word_offsets, words
