"""Counts of clicks, co-clicks and documents on the pages of swap experiments.

Co-clicks are counted in a hash table. A dense array of all buckets, conditions and pairs of
positions takes 0.76 GB for 199 buckets on lists of 200, and nearly all of its counts are 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ulr.experiments.buckets import MAX_SIDE
from ulr.kernels.hashing import P1
from ulr.kernels.jit import kernel
from ulr.kernels.layout import Patterns
from ulr.kernels.patterns import WORD, clicked_indices

# Layer 0 counts all sessions, layer s those that clicked the s-th position of the bucket, the last
# layer those that clicked all positions of the bucket.
LAYERS = 2 + 2 * MAX_SIDE
MAX_POSITIONS = 1 << 16  # clicks below are not counted
EMPTY = np.int64(-1)
_PLACE = np.int64(16)  # bits of a position in a key
_MASK = np.int64(MAX_POSITIONS - 1)


class CoClicks(NamedTuple):
    """An open-addressing table from (arm, layer, k, l) to a number of sessions.

    keys    int64, EMPTY where a slot is free; the size is a power of two
    counts  int64, in the order of `keys`
    used    int64, one element: the number of keys
    """

    keys: np.ndarray
    counts: np.ndarray
    used: np.ndarray


def empty_co_clicks() -> CoClicks:
    """Return a table without counts."""
    size = 1 << 10
    return CoClicks(np.full(size, EMPTY), np.zeros(size, np.int64), np.zeros(1, np.int64))


def unpack_co_clicks(
    table: CoClicks,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return arm, layer, k, l (from 0, k <= l) and the count of every entry, int64, by key."""
    slot = np.flatnonzero(table.keys != EMPTY)
    slot = slot[np.argsort(table.keys[slot])]
    key = table.keys[slot]
    arm, layer = np.divmod(key >> (2 * _PLACE), LAYERS)
    return arm, layer, key >> _PLACE & _MASK, key & _MASK, table.counts[slot]


@kernel()
def _add(table: CoClicks, key: int, count: int) -> None:
    mask = np.uint64(table.keys.size - 1)
    slot = ((np.uint64(key) * P1) >> np.uint64(32)) & mask
    while table.keys[slot] != key:
        if table.keys[slot] == EMPTY:
            table.keys[slot] = key
            table.used[0] += 1
            break
        slot = (slot + np.uint64(1)) & mask
    table.counts[slot] += count


@kernel()
def _with_room(table: CoClicks, more: int) -> CoClicks:
    """Return a table that stays half empty with `more` further keys."""
    size = table.keys.size
    while size < 2 * (table.used[0] + more):
        size *= 2
    if size == table.keys.size:
        return table
    larger = CoClicks(np.full(size, EMPTY), np.zeros(size, np.int64), np.zeros(1, np.int64))
    for slot in range(table.keys.size):
        if table.keys[slot] != EMPTY:
            _add(larger, table.keys[slot], table.counts[slot])
    return larger


@kernel()
def _add_pairs(table: CoClicks, layer: int, clicked: np.ndarray, count: int) -> None:
    for a in range(clicked.size):
        for b in range(a, clicked.size):
            _add(table, (layer << _PLACE | clicked[a]) << _PLACE | clicked[b], count)


@kernel()
def count_arms(
    arm: np.ndarray,
    patterns: Patterns,
    moved: np.ndarray,
    sessions: np.ndarray,
    table: CoClicks,
) -> CoClicks:
    """Add the histograms of all groups to the totals of their arms.

    arm: int64 per group, a row of `moved` and `sessions`, or -1 to skip the group.
    moved: int64, arms x (2 MAX_SIDE), indices that the bucket moves, -1 where there are fewer.
    sessions: int64 per arm, changed in place. Returns `table`, or a larger one with its counts.
    """
    clicked = np.empty(MAX_POSITIONS, np.int64)
    for i in range(arm.size):
        g = arm[i]
        first, end = patterns.count_offsets[i], patterns.count_offsets[i + 1]
        if g < 0 or first == end:
            continue
        start = patterns.word_offsets[i]
        width = (patterns.word_offsets[i + 1] - start) // (end - first)
        for p in range(end - first):
            count = patterns.counts[first + p]
            sessions[g] += count
            at = start + p * width
            clicks = clicked_indices(patterns.words, at, width, clicked)
            own = clicked[:clicks]
            table = _with_room(table, LAYERS * clicks * (clicks + 1) // 2)
            _add_pairs(table, g * LAYERS, own, count)
            size, touched = 0, 0
            for s in range(moved.shape[1]):
                index = moved[g, s]
                if index >= 0:
                    size += 1
                    if index < width * WORD and _is_clicked(patterns.words, at, index):
                        touched += 1
                        _add_pairs(table, g * LAYERS + s + 1, own, count)
            if size > 0 and touched == size:
                _add_pairs(table, g * LAYERS + LAYERS - 1, own, count)
    return table


@njit(inline="always")
def _is_clicked(words: np.ndarray, start: int, index: int) -> bool:
    return bool(words[start + index // WORD] >> np.int64(index % WORD) & 1)


@kernel()
def count_places(
    rows: np.ndarray, second: np.ndarray, patterns: Patterns
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sessions, clicks at the first index and clicks at the second, int64, of some groups.

    rows: int64, the groups. second: int64 per row, an index within the list, or -1: no clicks.
    """
    sessions = np.zeros(rows.size, np.int64)
    at_first, at_second = np.zeros(rows.size, np.int64), np.zeros(rows.size, np.int64)
    for r in range(rows.size):
        i = rows[r]
        first, end = patterns.count_offsets[i], patterns.count_offsets[i + 1]
        start = patterns.word_offsets[i]
        width = (patterns.word_offsets[i + 1] - start) // max(end - first, 1)
        for p in range(end - first):
            count = patterns.counts[first + p]
            sessions[r] += count
            if _is_clicked(patterns.words, start + p * width, 0):
                at_first[r] += count
            if second[r] >= 0 and _is_clicked(patterns.words, start + p * width, second[r]):
                at_second[r] += count
    return sessions, at_first, at_second


@kernel()
def sum_rows(group: np.ndarray, groups: int, values: np.ndarray) -> np.ndarray:
    """Return the sum of the rows of each group: int64, groups x columns.

    group: int64 per row of `values` (int64, rows x columns).
    """
    total = np.zeros((groups, values.shape[1]), np.int64)
    for i in range(group.size):
        for c in range(values.shape[1]):
            total[group[i], c] += values[i, c]
    return total
