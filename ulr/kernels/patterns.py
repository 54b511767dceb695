"""Counting clicks in histograms of click patterns: singly, in pairs, per position.

A pattern is `width` 64-bit words; bit b of word w is the click at index 64 w + b. Cost is one
step per pattern and one per pair of its clicks, whatever the number of sessions.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

WORD = 64


@intrinsic
def _trailing_zeros(typingctx, word):  # noqa: ANN001, ANN202 (numba's own signature)
    """Index of the lowest set bit; one machine instruction, which numba does not expose."""

    def codegen(context, builder, signature, args):  # noqa: ANN001, ANN202
        return builder.cttz(args[0], context.get_constant(types.boolean, 1))

    return types.uint64(types.uint64), codegen


@njit(cache=True)
def _clicked_indices(words: np.ndarray, start: int, width: int, out: np.ndarray) -> int:
    """Write the clicked indices below out.size, rising; return how many."""
    found = 0
    for w in range(width):
        word = np.uint64(words[start + w])
        while word != 0:
            at = w * WORD + np.int64(_trailing_zeros(word))
            if at >= out.size:
                return found
            out[found] = at
            found += 1
            word &= word - np.uint64(1)
    return found


@njit(cache=True)
def _add_pairs(clicked: np.ndarray, count: int, together: np.ndarray) -> None:
    for a in range(clicked.size):
        for b in range(a, clicked.size):
            together[clicked[a], clicked[b]] += count


@njit(cache=True, nogil=True)
def count_patterns(
    key: np.ndarray,
    word_offsets: np.ndarray,
    words: np.ndarray,
    count_offsets: np.ndarray,
    counts: np.ndarray,
    slots: np.ndarray,
    sessions: np.ndarray,
    together: np.ndarray,
) -> None:
    """Add the histograms of all groups to the totals of their keys, in place.

    key: int64 per group, a row of the totals, or -1 to skip the group. word_offsets,
    count_offsets: groups + 1. sessions: int64 per key. together: keys x layers x positions x
    positions, sessions that clicked both (upper triangle; clicks on the diagonal): layer 0 of all
    sessions, layer s of those that clicked the bucket position with slot s, the last layer of
    those that clicked them all. slots: int64, keys x positions, 0 outside the bucket.
    """
    clicked = np.empty(together.shape[2], np.int64)
    last = together.shape[1] - 1
    for i in range(key.size):
        g = key[i]
        patterns = count_offsets[i + 1] - count_offsets[i]
        if g < 0 or patterns == 0:
            continue
        width = (word_offsets[i + 1] - word_offsets[i]) // patterns
        size = slots[g].max()
        for p in range(patterns):
            count = counts[count_offsets[i] + p]
            sessions[g] += count
            found = _clicked_indices(words, word_offsets[i] + p * width, width, clicked)
            _add_pairs(clicked[:found], count, together[g, 0])
            touched = 0
            if size > 0:
                for a in range(found):
                    slot = slots[g, clicked[a]]
                    if slot > 0:
                        touched += 1
                        _add_pairs(clicked[:found], count, together[g, slot])
                if touched == size:
                    _add_pairs(clicked[:found], count, together[g, last])


@njit(cache=True, nogil=True)
def count_positions(
    lengths: np.ndarray,
    word_offsets: np.ndarray,
    words: np.ndarray,
    count_offsets: np.ndarray,
    counts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Sessions of each group, and clicks of each of its positions, group after group.

    lengths: int64, positions of each group that are asked for. Returns sessions (groups) and
    clicks (sum of lengths).
    """
    starts = np.zeros(lengths.size + 1, np.int64)
    starts[1:] = np.cumsum(lengths)
    sessions = np.zeros(lengths.size, np.int64)
    clicks = np.zeros(starts[-1], np.int64)
    for i in range(lengths.size):
        clicked = np.empty(lengths[i], np.int64)
        patterns = count_offsets[i + 1] - count_offsets[i]
        for p in range(patterns):
            width = (word_offsets[i + 1] - word_offsets[i]) // patterns
            count = counts[count_offsets[i] + p]
            sessions[i] += count
            found = _clicked_indices(words, word_offsets[i] + p * width, width, clicked)
            for a in range(found):
                clicks[starts[i] + clicked[a]] += count
    return sessions, clicks


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


@njit(cache=True, nogil=True)
def cut_patterns(
    sizes: np.ndarray,
    depth: int,
    word_offsets: np.ndarray,
    words: np.ndarray,
    count_offsets: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets and words of all patterns, cut to the first `depth` positions.

    sizes: int64, positions of each group. Patterns that become equal are kept apart.
    """
    kept = np.minimum(sizes, depth)
    widths, old_widths = (kept + WORD - 1) // WORD, (sizes + WORD - 1) // WORD
    offsets = np.zeros(sizes.size + 1, np.int64)
    offsets[1:] = np.cumsum(widths * np.diff(count_offsets))
    cut = np.empty(offsets[-1], np.int64)
    to = 0
    for g in range(sizes.size):
        tail = kept[g] % WORD  # positions in the last word, 0: all of them
        for p in range(count_offsets[g + 1] - count_offsets[g]):
            start = word_offsets[g] + p * old_widths[g]
            cut[to : to + widths[g]] = words[start : start + widths[g]]
            to += widths[g]
            if tail:
                cut[to - 1] &= (np.int64(1) << tail) - np.int64(1)
    return offsets, cut
