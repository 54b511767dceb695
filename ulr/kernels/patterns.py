"""Click patterns: packing the clicks of pages into words, and counting clicks in histograms.

Bit b of word w of a pattern is the click at index 64 w + b. Counting costs one step per pattern
and one per pair of its clicks, whatever the number of sessions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from ulr.kernels.hashing import intrinsic
from ulr.kernels.jit import kernel
from ulr.kernels.layout import Patterns

WORD = 64


@intrinsic
def _trailing_zeros(typingctx: Any, word: Any) -> Any:
    """Return the index of the lowest set bit; numba does not expose the machine instruction."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], context.get_constant(types.boolean, 1))

    return types.uint64(types.uint64), codegen


@kernel()
def clicked_indices(words: np.ndarray, start: int, width: int, out: np.ndarray) -> int:
    """Write the clicked indices below out.size, ascending, and return their number.

    words: int64; the pattern is words[start : start + width]. out: int64.
    """
    clicks = 0
    for w in range(width):
        word = np.uint64(words[start + w])
        while word != 0:
            index = w * WORD + np.int64(_trailing_zeros(word))
            if index >= out.size:
                return clicks
            out[clicks] = index
            clicks += 1
            word &= word - np.uint64(1)
    return clicks


@kernel()
def _add_pairs(clicked: np.ndarray, count: int, together: np.ndarray) -> None:
    for a in range(clicked.size):
        for b in range(a, clicked.size):
            together[clicked[a], clicked[b]] += count


@kernel()
def count_patterns(
    key: np.ndarray,
    patterns: Patterns,
    slots: np.ndarray,
    sessions: np.ndarray,
    together: np.ndarray,
) -> None:
    """Add the histograms of all groups to the totals of their keys, in place.

    key: int64 per group, a row of the totals, or -1 to skip the group. sessions: int64 per key.
    together: int64, keys x layers x positions x positions, sessions that clicked both positions
    (upper triangle; clicks on the diagonal). Layer 0 counts all sessions, layer s those that
    clicked the bucket position with slot s, the last layer those that clicked every bucket
    position. slots: int64, keys x positions, 0 for positions outside the bucket.
    """
    clicked = np.empty(together.shape[2], np.int64)
    last = together.shape[1] - 1
    for i in range(key.size):
        g = key[i]
        first, end = patterns.count_offsets[i], patterns.count_offsets[i + 1]
        if g < 0 or first == end:
            continue
        start = patterns.word_offsets[i]
        width = (patterns.word_offsets[i + 1] - start) // (end - first)
        size = slots[g].max()
        for p in range(end - first):
            count = patterns.counts[first + p]
            sessions[g] += count
            clicks = clicked_indices(patterns.words, start + p * width, width, clicked)
            _add_pairs(clicked[:clicks], count, together[g, 0])
            touched = 0
            if size > 0:
                for a in range(clicks):
                    slot = slots[g, clicked[a]]
                    if slot > 0:
                        touched += 1
                        _add_pairs(clicked[:clicks], count, together[g, slot])
                if touched == size:
                    _add_pairs(clicked[:clicks], count, together[g, last])


@kernel()
def count_positions(lengths: np.ndarray, patterns: Patterns) -> tuple[np.ndarray, np.ndarray]:
    """Return the sessions of each group and the clicks of each of its positions.

    lengths: int64, how many positions of each group to count. Both results are int64; clicks has
    sum(lengths) values, group after group.
    """
    starts = np.zeros(lengths.size + 1, np.int64)
    starts[1:] = np.cumsum(lengths)
    sessions = np.zeros(lengths.size, np.int64)
    clicks = np.zeros(starts[-1], np.int64)
    for i in range(lengths.size):
        clicked = np.empty(lengths[i], np.int64)
        first, end = patterns.count_offsets[i], patterns.count_offsets[i + 1]
        start = patterns.word_offsets[i]
        width = (patterns.word_offsets[i + 1] - start) // max(end - first, 1)
        for p in range(end - first):
            count = patterns.counts[first + p]
            sessions[i] += count
            number = clicked_indices(patterns.words, start + p * width, width, clicked)
            for a in range(number):
                clicks[starts[i] + clicked[a]] += count
    return sessions, clicks


@kernel()
def has_duplicates(starts: np.ndarray, lengths: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return whether each list holds the same word twice.

    starts, lengths: int64 per list; words: uint64, one per element. Short lists are compared pair
    by pair, which needs no memory.
    """
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


@kernel()
def pack_clicks(
    starts: np.ndarray, lengths: np.ndarray, bits: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pack the click bits of each page into ceil(length / 64) words.

    starts: int64, index of each page's first bit; bits: uint8 bitmap, least significant bit first.
    Returns word_offsets (int64, pages + 1) and words (int64).
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


@kernel()
def cut_patterns(sizes: np.ndarray, depth: int, patterns: Patterns) -> Patterns:
    """Return all patterns cut to the first `depth` positions; those that become equal stay apart.

    sizes: int64, positions of each group.
    """
    word_offsets, words, count_offsets, counts = patterns
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
    return Patterns(offsets, cut, count_offsets, counts)
