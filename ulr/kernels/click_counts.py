"""Clicks and co-clicks of a group's documents, from its histogram of click patterns.

With session weight w (1, or 1 / IDCG(m) for m clicks) and sums over a group's patterns,

    N = sum w,  C_i = sum w c_i,  C_ij = sum w c_i c_j.

The cost is patterns x clicks^2; it does not depend on the number of sessions. Where users stop
after clicks, a click at position k with m clicks above counts as 1 / p_k clicks,
p_k = reach_k stay^m (docs/methods.md section 4.8).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ulr.kernels.jit import kernel
from ulr.kernels.layout import Histograms, Patterns, Stopping
from ulr.kernels.patterns import WORD, clicked_indices


class ClickCounts(NamedTuple):
    """Weighted sessions of one group; index 0 of each array sums w, index 1 sums w^2.

    slot    int64, documents   number of a document among the clicked ones, -1 if never clicked
    single  2 x clicked        C_i
    both    2 x clicked^2      C_ij, i < j
    total   2                  N
    """

    slot: np.ndarray
    single: np.ndarray
    both: np.ndarray
    total: np.ndarray


class PatternCounts(NamedTuple):
    """Clicks of one group divided by p_k; index 0 of each array sums the values, 1 their squares.

    single   2 x clicked     c_i / p_i
    both     2 x clicked^2   c_i c_j / p_i, in row i
    gap      2 x clicked^2   c_i c_j (1 / p_j - 1 / p_i), i < j
    largest  clicked         largest 1 / p_i
    """

    single: np.ndarray
    both: np.ndarray
    gap: np.ndarray
    largest: np.ndarray


@kernel()
def count_group(
    groups: Histograms, g: int, clicked: np.ndarray, session: np.ndarray
) -> ClickCounts:
    """Return the counts of group g. session: weight of a session by its number of clicks."""
    lo, patterns = groups.group_docs[g], groups.patterns
    n = groups.group_docs[g + 1] - lo
    slot, m = np.full(n, -1), 0
    for d in range(n):
        if clicked[lo + d]:
            slot[d] = m
            m += 1
    single, both, total = np.zeros((2, m)), np.zeros((2, m, m)), np.zeros(2)
    who = np.empty(n, np.int64)
    width = (n + WORD - 1) // WORD
    first = patterns.count_offsets[g]
    for p in range(first, patterns.count_offsets[g + 1]):
        at = patterns.word_offsets[g] + (p - first) * width
        clicks = clicked_indices(patterns.words, at, width, who)
        once = patterns.counts[p] * session[clicks]
        twice = once * session[clicks]
        total[0] += once
        total[1] += twice
        for x in range(clicks):
            a = slot[who[x]]
            single[0, a] += once
            single[1, a] += twice
            for y in range(x + 1, clicks):
                both[0, a, slot[who[y]]] += once
                both[1, a, slot[who[y]]] += twice
    return ClickCounts(slot, single, both, total)


@kernel()
def count_by_pattern(
    groups: Histograms, all_clicks: Patterns, g: int, slot: np.ndarray, session: np.ndarray,
    stopping: Stopping, segment: int, limit: float,
) -> PatternCounts:  # fmt: skip
    """Return the counts of group g divided by p_k. slot: as in ClickCounts. limit: of 1 / p_k.

    all_clicks: the patterns whose clicks make users stop, one for each pattern of `groups`.
    """
    n, patterns, m = slot.size, groups.patterns, slot.max() + 1
    single, both, gap = np.zeros((2, m)), np.zeros((2, m, m)), np.zeros((2, m, m))
    largest = np.zeros(m)
    who, inverse = np.empty(n, np.int64), np.empty(n)
    width = (n + WORD - 1) // WORD
    first = patterns.count_offsets[g]
    for p in range(first, patterns.count_offsets[g + 1]):
        at = patterns.word_offsets[g] + (p - first) * width
        above_at = all_clicks.word_offsets[g] + (p - first) * width
        every = clicked_indices(all_clicks.words, above_at, width, who)
        clicks, above = 0, 1.0
        for x in range(every):
            k = who[x]
            if patterns.words[at + k // WORD] >> np.int64(k % WORD) & 1:
                once = min(above / stopping.reach[segment, k], limit)
                largest[slot[k]] = max(largest[slot[k]], once)
                who[clicks], inverse[clicks] = k, once
                clicks += 1
            above /= stopping.stay[segment]
        w = session[clicks]
        for x in range(clicks):
            inverse[x] *= w
        for x in range(clicks):
            a = slot[who[x]]
            for power in range(2):
                once = patterns.counts[p] * inverse[x] ** (power + 1)
                single[power, a] += once
                for y in range(clicks):
                    b = slot[who[y]]
                    if y != x:
                        both[power, a, b] += once
                    if y > x:
                        more = (inverse[y] - inverse[x]) ** (power + 1)
                        gap[power, a, b] += patterns.counts[p] * more
    return PatternCounts(single, both, gap, largest)


@kernel()
def independent_co_clicks(counts: ClickCounts, a: int, b: int, psi: np.ndarray) -> float:
    """Return m: the co-clicks expected of places a, b if their relevance is independent."""
    n, n2 = counts.total[0], counts.total[1]
    c_a, c_b = counts.single[0, counts.slot[a]], counts.single[0, counts.slot[b]]
    others = (n * n - n2) * psi[a, a] * psi[b, b]
    within = n2 * psi[a, b]
    m: float = n * psi[a, b] * c_a * c_b / max(within + others, 1e-300)
    return m
