"""Merging click-pattern histograms: equal keys become one group, equal patterns one count.

Both steps use an open-addressing hash table of row indices, so equality is tested on the rows
themselves and never on a hash alone.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ulr.kernels.hashing import hash_word

EMPTY = np.int64(-1)


@njit(cache=True)
def _capacity(n: int) -> int:
    size = 16
    while size < 2 * n:
        size *= 2
    return size


@njit(cache=True, nogil=True)
def group_keys(high: np.ndarray, low: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct keys (high, low), both uint64, in order of first appearance.

    Returns group (int64, n) and first (int64, one row index per group).
    """
    n = high.size
    mask = np.uint64(_capacity(n) - 1)
    table = np.full(np.int64(mask) + 1, EMPTY)
    group = np.empty(n, np.int64)
    first = np.empty(n, np.int64)
    found = 0
    for i in range(n):
        slot = (low[i] ^ (high[i] * np.uint64(0x9E3779B185EBCA87))) & mask
        while True:
            g = table[slot]
            if g == EMPTY:
                table[slot] = found
                first[found] = i
                group[i] = found
                found += 1
                break
            r = first[g]
            if high[r] == high[i] and low[r] == low[i]:
                group[i] = g
                break
            slot = (slot + np.uint64(1)) & mask
    return group, first[:found].copy()


@njit(cache=True)
def _same_words(words: np.ndarray, a: int, b: int, width: int) -> bool:
    for w in range(width):
        if words[a + w] != words[b + w]:
            return False
    return True


@njit(cache=True)
def _less_words(words: np.ndarray, a: int, b: int, width: int) -> bool:
    """Unsigned order, last word most significant: the order of the patterns as numbers."""
    for w in range(width - 1, -1, -1):
        x, y = np.uint64(words[a + w]), np.uint64(words[b + w])
        if x != y:
            return x < y
    return False


@njit(cache=True)
def _sort_group(words: np.ndarray, at: np.ndarray, counts: np.ndarray, width: int) -> None:
    """Sort one group's patterns in place; `at` holds where each starts in `words`. Shell sort:
    most groups have a handful of patterns, and a hot one some thousands."""
    n = at.size
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            a, c = at[i], counts[i]
            j = i
            while j >= gap and _less_words(words, a, at[j - gap], width):
                at[j], counts[j] = at[j - gap], counts[j - gap]
                j -= gap
            at[j], counts[j] = a, c
        gap //= 3


@njit(cache=True, nogil=True)
def merge_patterns(
    group: np.ndarray,
    n_groups: int,
    word_offsets: np.ndarray,
    words: np.ndarray,
    count_offsets: np.ndarray,
    counts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Add up the histograms of rows that share a group, patterns ascending within each group.

    group: int64 per row. word_offsets, count_offsets: int64, rows + 1. Rows of one group have
    patterns of one width (words per pattern). Returns the same four arrays, one row per group.
    """
    n = group.size
    total = counts.size
    mask = np.uint64(_capacity(total) - 1)
    table = np.full(np.int64(mask) + 1, EMPTY)
    owner = np.empty(total, np.int64)  # group of each distinct pattern
    at = np.empty(total, np.int64)  # where its words start
    sums = np.empty(total, np.int64)
    widths = np.zeros(n_groups, np.int64)
    sizes = np.zeros(n_groups + 1, np.int64)
    found = 0
    for i in range(n):
        g = group[i]
        patterns = count_offsets[i + 1] - count_offsets[i]
        if patterns == 0:
            continue
        width = (word_offsets[i + 1] - word_offsets[i]) // patterns
        widths[g] = width
        for p in range(patterns):
            start = word_offsets[i] + p * width
            count = counts[count_offsets[i] + p]
            h = np.uint64(g)
            for w in range(width):
                h = hash_word(np.uint64(words[start + w]), h)
            slot = h & mask
            while True:
                e = table[slot]
                if e == EMPTY:
                    table[slot] = found
                    owner[found], at[found], sums[found] = g, start, count
                    sizes[g + 1] += 1
                    found += 1
                    break
                if owner[e] == g and _same_words(words, at[e], start, width):
                    sums[e] += count
                    break
                slot = (slot + np.uint64(1)) & mask
    return _lay_out(widths, sizes, words, owner[:found], at[:found], sums[:found])


@njit(cache=True)
def _lay_out(
    widths: np.ndarray,
    sizes: np.ndarray,
    words: np.ndarray,
    owner: np.ndarray,
    at: np.ndarray,
    sums: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Bring distinct patterns into group order and each group's patterns into rising order."""
    n_groups = widths.size
    count_offsets = np.cumsum(sizes)
    word_offsets = np.zeros(n_groups + 1, np.int64)
    for g in range(n_groups):
        word_offsets[g + 1] = word_offsets[g] + sizes[g + 1] * widths[g]
    place = count_offsets[:-1].copy()
    sorted_at = np.empty(owner.size, np.int64)
    out_counts = np.empty(owner.size, np.int64)
    for e in range(owner.size):
        to = place[owner[e]]
        sorted_at[to], out_counts[to] = at[e], sums[e]
        place[owner[e]] += 1
    out_words = np.empty(word_offsets[n_groups], np.int64)
    for g in range(n_groups):
        lo, hi, width = count_offsets[g], count_offsets[g + 1], widths[g]
        _sort_group(words, sorted_at[lo:hi], out_counts[lo:hi], width)
        for p in range(lo, hi):
            to = word_offsets[g] + (p - lo) * width
            for w in range(width):
                out_words[to + w] = words[sorted_at[p] + w]
    return word_offsets, out_words, count_offsets, out_counts
