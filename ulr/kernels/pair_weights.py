"""From click-pattern histograms to weighted pairs (METHODS section 2).

With session weight w (1, or 1 / IDCG(m) for m clicks) and counts over a group's patterns

    N = sum w,  C_i = sum w c_i,  C_ij = sum w c_i c_j,

the sessions of each pair type are C_ij, C_i - C_ij, C_j - C_ij and N - C_i - C_j + C_ij. The cost
is patterns x clicks^2 plus the pairs written; how often a pattern was seen costs nothing.

Co-clicks are rare where 1 / psi is large, so C_ij may be drawn towards what it would be if the
relevance of two documents were independent. With N2 = sum w^2, E[C_i C_j] is then
(N2 psi + (N^2 - N2) theta_i theta_j) r_i r_j, so m = N psi C_i C_j over that factor has the same
mean as C_ij and less noise: without weights, psi C_i C_j / (psi + (N - 1) theta_i theta_j). With
C_ij Poisson of mean m g, and g Gamma of mean 1 and variance v, the posterior mean is

    m (1 + v C_ij) / (1 + v m):

m for v = 0, C_ij for v without bound, and C_ij for any v > 0 when there is much traffic.
"""

from __future__ import annotations

import numpy as np
from numba import njit

WORD = 64
BITS = np.uint64(1)


@njit(cache=True, nogil=True)
def _clicked(words: np.ndarray, at: int, n: int, who: np.ndarray) -> int:
    """Places of the set bits of one pattern, ascending; returns how many."""
    found = 0
    for w in range((n + WORD - 1) // WORD):
        word = np.uint64(words[at + w])
        bit = w * WORD
        while word != 0:
            if word & BITS:
                who[found] = bit
                found += 1
            word >>= BITS
            bit += 1
    return found


@njit(cache=True, nogil=True)
def clicked_places(
    group_docs: np.ndarray, word_offsets: np.ndarray, words: np.ndarray, out: np.ndarray
) -> None:
    """Set out (bool, one per document) where some session of the group clicked."""
    for g in range(group_docs.size - 1):
        n = group_docs[g + 1] - group_docs[g]
        width = (n + WORD - 1) // WORD
        who = np.empty(n, np.int64)
        for at in range(word_offsets[g], word_offsets[g + 1], max(width, 1)):
            for k in range(_clicked(words, at, n, who)):
                out[group_docs[g] + who[k]] = True


@njit(cache=True, nogil=True)
def clicked_slots(clicked: np.ndarray, lo: int, hi: int) -> tuple[np.ndarray, int]:
    """Number the documents lo..hi that were clicked, -1 for the others; and how many were."""
    slot, m = np.full(hi - lo, -1), 0
    for d in range(hi - lo):
        if clicked[lo + d]:
            slot[d] = m
            m += 1
    return slot, m


@njit(cache=True, nogil=True)
def count_group(
    n: int, words: np.ndarray, at: int, counts: np.ndarray, first: int, last: int,
    session: np.ndarray, slot: np.ndarray, who: np.ndarray, single: np.ndarray,
    both: np.ndarray, total: np.ndarray,
) -> None:  # fmt: skip
    """C_i in single[0], C_ij in both[0], N in total[0]; index 1 holds the same with w^2."""
    width = (n + WORD - 1) // WORD
    single[:, :] = 0.0
    both[:, :, :] = 0.0
    total[:] = 0.0
    for p in range(first, last):
        clicks = _clicked(words, at + (p - first) * width, n, who)
        once = counts[p] * session[clicks]
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


@njit(cache=True, nogil=True)
def independent_co_clicks(
    a: int, b: int, c_a: float, c_b: float, total: np.ndarray, psi: np.ndarray
) -> float:  # fmt: skip
    """m: the co-clicks of places a, b to expect from their clicks if relevance is independent."""
    others = (total[0] * total[0] - total[1]) * psi[a, a] * psi[b, b]
    within = total[1] * psi[a, b]
    return total[0] * psi[a, b] * c_a * c_b / max(within + others, 1e-300)


@njit(cache=True, nogil=True)
def _smooth(
    a: int, b: int, slot: np.ndarray, single: np.ndarray, both: np.ndarray, total: np.ndarray,
    psi: np.ndarray, variance: float,
) -> None:  # fmt: skip
    """Replace C_ij of places a < b by its posterior mean; with w^2, by that at the mean weight."""
    x, y = slot[a], slot[b]
    m = independent_co_clicks(a, b, single[0, x], single[0, y], total, psi)
    both[0, x, y] = m * (1.0 + variance * both[0, x, y]) / (1.0 + variance * m)
    both[1, x, y] = both[0, x, y] * total[1] / total[0]


@njit(cache=True, nogil=True)
def _add_health(
    table: np.ndarray, raw: np.ndarray, k: int, v: int, kinds: np.ndarray, health: np.ndarray
) -> float:
    """Weight of 'k above v' from the counts of the four types; notes |w|, w^2, raw |w|, max."""
    u = 0.0
    for t in range(4):
        count, square = kinds[0, t], kinds[1, t]
        w = table[t, k, v]
        u += w * count
        if count > 0.0:  # smoothing can leave fewer than no sessions of a type
            health[0, k] += abs(w) * count
            health[1, k] += w * w * max(square, 0.0)
            health[2, k] += abs(raw[t, k, v]) * count
            health[3, k] = max(health[3, k], abs(w))
    return u


@njit(cache=True, nogil=True)
def weigh_groups(
    group_docs: np.ndarray, word_offsets: np.ndarray, words: np.ndarray,
    count_offsets: np.ndarray, counts: np.ndarray, table_of: np.ndarray, tables: np.ndarray,
    raw: np.ndarray, psi: np.ndarray, variance: float, session: np.ndarray, all_pairs: bool,
    clicked: np.ndarray,
    pair_offsets: np.ndarray, i: np.ndarray, j: np.ndarray, u_ij: np.ndarray,
    u_ji: np.ndarray, health: np.ndarray,
) -> None:  # fmt: skip
    """Fill i, j (int32), u_ij, u_ji (float32) of every pair that can have weight; i < j.

    tables, raw: segments x 4 x K x K, clipped and not; table_of: which one a group uses.
    psi: segments x K x K, theta on the diagonal; variance: v of the co-clicks, inf for none of it.
    session: weight of a session by its number of clicks. clicked: bool per document.
    pair_offsets: int64, groups + 1, already filled. health: 4 x K, added to.
    """
    for g in range(group_docs.size - 1):
        n = group_docs[g + 1] - group_docs[g]
        if pair_offsets[g] == pair_offsets[g + 1]:
            continue
        slot, m = clicked_slots(clicked, group_docs[g], group_docs[g + 1])
        who = np.empty(n, np.int64)
        single, both, total = np.empty((2, m)), np.empty((2, m, m)), np.empty(2)
        count_group(n, words, word_offsets[g], counts, count_offsets[g], count_offsets[g + 1],
                     session, slot, who, single, both, total)  # fmt: skip
        p = pair_offsets[g]
        kinds, mirror = np.empty((2, 4)), np.empty((2, 4))
        table, plain = tables[table_of[g]], raw[table_of[g]]
        for a in range(n):
            for b in range(a + 1, n):
                if not (all_pairs or slot[a] >= 0 or slot[b] >= 0):
                    continue
                if slot[a] >= 0 and slot[b] >= 0 and variance < np.inf:
                    _smooth(a, b, slot, single, both, total, psi[table_of[g]], variance)
                _types(slot[a], slot[b], single, both, total, kinds, mirror)
                i[p], j[p] = a, b
                u_ij[p] = _add_health(table, plain, a, b, kinds, health)
                u_ji[p] = _add_health(table, plain, b, a, mirror, health)
                p += 1


@njit(cache=True, nogil=True)
def _types(
    a: int, b: int, single: np.ndarray, both: np.ndarray, total: np.ndarray,
    kinds: np.ndarray, mirror: np.ndarray,
) -> None:  # fmt: skip
    """Sessions of each type for (a, b), and for (b, a); rows: w, w^2. Slot -1: never clicked."""
    for power in range(2):
        c_a = single[power, a] if a >= 0 else 0.0
        c_b = single[power, b] if b >= 0 else 0.0
        c_ab = both[power, a, b] if a >= 0 and b >= 0 else 0.0
        kinds[power, 0] = mirror[power, 0] = c_ab
        kinds[power, 1] = mirror[power, 2] = c_a - c_ab
        kinds[power, 2] = mirror[power, 1] = c_b - c_ab
        kinds[power, 3] = mirror[power, 3] = total[power] - c_a - c_b + c_ab


@njit(cache=True, nogil=True)
def label_pairs(
    group_docs: np.ndarray, labels: np.ndarray, gains: np.ndarray, pair_offsets: np.ndarray,
    i: np.ndarray, j: np.ndarray, u_ij: np.ndarray, u_ji: np.ndarray,
) -> None:  # fmt: skip
    """Gain of y_i less that of y_j for every pair with two known labels, y_i > y_j (-1: unknown).

    With i empty, only pair_offsets is filled: call once to size the arrays, once to fill them.
    """
    p = 0
    for g in range(group_docs.size - 1):
        lo, n = group_docs[g], group_docs[g + 1] - group_docs[g]
        for a in range(n):
            for b in range(a + 1, n):
                y_a, y_b = labels[lo + a], labels[lo + b]
                if y_a == y_b or min(y_a, y_b) < 0:
                    continue
                if i.size:
                    i[p], j[p] = a, b
                    more = gains[y_a] - gains[y_b]
                    u_ij[p], u_ji[p] = max(more, 0.0), max(-more, 0.0)
                p += 1
        pair_offsets[g + 1] = p


PAIRS, SPREAD, REACH = range(3)  # pairs, sum of (C - m)^2 / s, sum of m^2 (1 - 1 / c) / s


@njit(cache=True, nogil=True)
def _add_pair(
    co_clicks: float, m: float, rarer: float, sessions: float, sums: np.ndarray
) -> None:  # fmt: skip
    s = m * (1.0 - m / rarer) * (sessions - rarer) / max(sessions - 1.0, 1.0)
    if rarer > 1.0 and s > 1e-9 * m:
        sums[PAIRS] += 1.0
        sums[SPREAD] += (co_clicks - m) ** 2 / s
        sums[REACH] += m * m * (1.0 - 1.0 / rarer) / s


@njit(cache=True, nogil=True)
def co_click_spread(
    group_docs: np.ndarray, word_offsets: np.ndarray, words: np.ndarray,
    count_offsets: np.ndarray, counts: np.ndarray, table_of: np.ndarray, psi: np.ndarray,
    clicked: np.ndarray, sums: np.ndarray,
) -> None:  # fmt: skip
    """Add the three sums of all pairs of all groups to `sums`."""
    longest = 0
    for g in range(group_docs.size - 1):
        longest = max(longest, group_docs[g + 1] - group_docs[g])
    each = np.ones(longest + 1)  # every session counts once, whatever its weight in training
    for g in range(group_docs.size - 1):
        slot, m = clicked_slots(clicked, group_docs[g], group_docs[g + 1])
        if m < 2:
            continue
        n = slot.size
        single, both, total = np.empty((2, m)), np.empty((2, m, m)), np.empty(2)
        count_group(n, words, word_offsets[g], counts, count_offsets[g], count_offsets[g + 1],
                    each, slot, np.empty(n, np.int64), single, both, total)  # fmt: skip
        table = psi[table_of[g]]
        for a in range(n):
            for b in range(a + 1, n):
                if slot[a] >= 0 and slot[b] >= 0:
                    x, y = slot[a], slot[b]
                    mean = independent_co_clicks(a, b, single[0, x], single[0, y], total, table)
                    rarer = min(single[0, x], single[0, y])
                    _add_pair(both[0, x, y], mean, rarer, total[0], sums)
