"""Click patterns: packing the clicks of pages into words, and counting clicks in histograms.

Bit b of word w of a pattern is the click at index 64 w + b. Counting costs one step per pattern and
one per click, whatever the number of sessions.
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
def first_clicks(
    lengths: np.ndarray, word_offsets: np.ndarray, words: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the position of the topmost click of each pattern, 0 without one, and its clicks.

    lengths: int64, documents of each pattern. word_offsets: int64, patterns + 1; of several levels
    of feedback only the lowest is read. Both results are int64.
    """
    first = np.zeros(lengths.size, np.int64)
    clicks = np.zeros(lengths.size, np.int64)
    for i in range(lengths.size):
        clicked = np.empty(lengths[i], np.int64)
        width = (lengths[i] + WORD - 1) // WORD
        clicks[i] = clicked_indices(words, word_offsets[i], width, clicked)
        if clicks[i] > 0:
            first[i] = clicked[0] + 1
    return first, clicks


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
def pack_levels(
    lengths: np.ndarray, click_starts: np.ndarray, bits: np.ndarray, click: int,
    grade_starts: np.ndarray, grades: np.ndarray, levels: int,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Pack the levels of each page's documents into ceil(length / 64) words for each level.

    bits: uint8 bitmap of clicks, each of level `click`. grades: uint8, levels from 0 (no event) to
    `levels`; the higher one counts. The starts are int64 per page, -1 for a page without. The first
    words hold the documents of level 1 or higher, the last those of the highest level. Returns
    word_offsets (int64, pages + 1) and words (int64).
    """
    widths = (lengths + WORD - 1) // WORD
    word_offsets = np.zeros(lengths.size + 1, np.int64)
    word_offsets[1:] = np.cumsum(levels * widths)
    words = np.zeros(word_offsets[-1], np.int64)
    for i in range(lengths.size):
        for k in range(lengths[i]):
            grade = np.int64(0)
            if click_starts[i] >= 0:
                at = click_starts[i] + k
                grade = np.int64(click * (bits[at >> 3] >> (at & 7) & 1))
            if grade_starts[i] >= 0:
                given = np.int64(grades[grade_starts[i] + k])
                grade = given if given > grade else grade
            bit = np.int64(1) << np.int64(k % WORD)
            for level in range(grade):
                words[word_offsets[i] + level * widths[i] + k // WORD] |= bit
    return word_offsets, words


@kernel()
def select_levels(patterns: Patterns, levels: int, chosen: np.ndarray) -> Patterns:
    """Return patterns of some levels of feedback; those that become equal stay apart.

    levels: of the patterns. chosen: int64, the level of each level of the result, from 0; -1: no
    document has it.
    """
    word_offsets, words, count_offsets, counts = patterns
    widths = np.zeros(word_offsets.size - 1, np.int64)
    sizes = np.diff(count_offsets)
    for g in range(sizes.size):
        if sizes[g]:
            widths[g] = (word_offsets[g + 1] - word_offsets[g]) // (sizes[g] * levels)
    offsets = np.zeros(word_offsets.size, np.int64)
    offsets[1:] = np.cumsum(widths * sizes * chosen.size)
    selected = np.zeros(offsets[-1], np.int64)
    to = 0
    for g in range(sizes.size):
        for p in range(sizes[g]):
            start = word_offsets[g] + p * levels * widths[g]
            for level in chosen:
                if level >= 0:
                    for w in range(widths[g]):
                        selected[to + w] = words[start + level * widths[g] + w]
                to += widths[g]
    return Patterns(offsets, selected, count_offsets, counts)


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
