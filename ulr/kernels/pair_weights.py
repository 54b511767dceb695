"""From histograms of click patterns to weighted pairs (docs/methods.md section 2).

With the counts N, C_i and C_ij of `click_counts`, the sessions of each pair type are C_ij,
C_i - C_ij, C_j - C_ij and N - C_i - C_j + C_ij.

Co-clicks are rare where 1 / psi is large, so C_ij may be shrunk towards its value for documents of
independent relevance. With N2 = sum w^2, E[C_i C_j] is then
(N2 psi + (N^2 - N2) theta_i theta_j) r_i r_j, so m = N psi C_i C_j over that factor has the same
mean as C_ij and less noise: without weights, psi C_i C_j / (psi + (N - 1) theta_i theta_j). With
C_ij Poisson of mean m g, and g Gamma of mean 1 and variance v, the posterior mean is

    m (1 + v C_ij) / (1 + v m):

m for v = 0, C_ij as v grows without bound, and close to C_ij for any v > 0 with much traffic.
"""

from __future__ import annotations

import numpy as np

from ulr.kernels.click_counts import (
    ClickCounts,
    PatternCounts,
    count_by_pattern,
    count_group,
    independent_co_clicks,
)
from ulr.kernels.jit import kernel
from ulr.kernels.layout import BY_PATTERN, Histograms, Patterns, WeightedPairs, WeightTables
from ulr.kernels.saturation import (
    Saturation,
    add_information,
    adds_lists,
    matrix_for,
    saturation_factor,
)


@kernel()
def _pattern_types(
    counts: PatternCounts, x: int, y: int, kinds: np.ndarray, mirror: np.ndarray
) -> None:
    """Fill kinds (2 x 4) and mirror for the slots x, y of the upper and the lower document.

    The weight is 1 / p_i of sessions that clicked i only. Of sessions that clicked both it is
    1 / p_i - 1 / p_lower: -gap for the upper document, 0 for the lower.
    """
    for power in range(2):
        co_upper = counts.both[power, x, y] if x >= 0 and y >= 0 else 0.0
        co_lower = counts.both[power, y, x] if x >= 0 and y >= 0 else 0.0
        kinds[power] = 0.0
        mirror[power] = 0.0
        if x >= 0:
            kinds[power, 1] = counts.single[power, x] - co_upper
        if y >= 0:
            mirror[power, 1] = counts.single[power, y] - co_lower
        if x >= 0 and y >= 0:
            kinds[power, 0] = counts.gap[power, x, y]


@kernel()
def _types(
    counts: ClickCounts, a: int, b: int, c_ab: np.ndarray, kinds: np.ndarray, mirror: np.ndarray
) -> None:
    """Fill kinds (2 x 4) with the sessions of each type for (a, b), mirror with those of (b, a).

    c_ab: their co-clicks, by power of the session weight.
    """
    x, y = counts.slot[a], counts.slot[b]
    for power in range(2):
        c_a = counts.single[power, x] if x >= 0 else 0.0
        c_b = counts.single[power, y] if y >= 0 else 0.0
        kinds[power, 0] = mirror[power, 0] = c_ab[power]
        kinds[power, 1] = mirror[power, 2] = c_a - c_ab[power]
        kinds[power, 2] = mirror[power, 1] = c_b - c_ab[power]
        kinds[power, 3] = mirror[power, 3] = counts.total[power] - c_a - c_b + c_ab[power]


@kernel()
def _count_types(
    counts: ClickCounts, a: int, b: int, psi: np.ndarray, variance: float, c_ab: np.ndarray,
    types: np.ndarray,
) -> None:  # fmt: skip
    """Fill types (2 x 2 x 2 x 4): as counted, then with smoothed co-clicks; (a, b), then (b, a).

    A smoothed C_ij is its posterior mean; with w^2, that at the mean weight. c_ab: work space of 2.
    """
    x, y = counts.slot[a], counts.slot[b]
    c_ab[0] = c_ab[1] = 0.0
    if x >= 0 and y >= 0:
        c_ab[0], c_ab[1] = counts.both[0, x, y], counts.both[1, x, y]
    _types(counts, a, b, c_ab, types[0, 0], types[0, 1])
    if x >= 0 and y >= 0 and variance < np.inf:
        m = independent_co_clicks(counts, a, b, psi)
        c_ab[0] = m * (1.0 + variance * c_ab[0]) / (1.0 + variance * m)
        c_ab[1] = c_ab[0] * counts.total[1] / counts.total[0]
    _types(counts, a, b, c_ab, types[1, 0], types[1, 1])


@kernel()
def _weigh(weights: np.ndarray, k: int, v: int, kinds: np.ndarray) -> float:
    """Return the weight of "k above v". weights: 4 x K x K."""
    u = 0.0
    for t in range(4):
        u += weights[t, k, v] * kinds[0, t]
    return u


@kernel()
def _add_health(
    weights: np.ndarray, unclipped: np.ndarray, k: int, v: int, kinds: np.ndarray,
    before: np.ndarray, factor: float, largest: float, health: np.ndarray,
) -> None:  # fmt: skip
    """Add |w|, w^2, unclipped |w| and the maximum of "k above v" to health (4 x K).

    before: the counts `kinds` before clipping. largest: value of one click in them.
    """
    for t in range(4):
        count, square = kinds[0, t], kinds[1, t]
        w = weights[t, k, v] * factor
        if count > 0.0:  # smoothing can leave a negative number of sessions of a type
            health[0, k] += abs(w) * count
            health[1, k] += w * w * max(square, 0.0)
            health[2, k] += abs(unclipped[t, k, v]) * factor * before[0, t]
            health[3, k] = max(health[3, k], abs(w) * largest)


@kernel()
def _weigh_pair(
    tables: WeightTables, segment: int, a: int, b: int, types: np.ndarray,
    largest: tuple[float, float], saturation: float, p: int, pairs: WeightedPairs,
    health: np.ndarray,
) -> None:  # fmt: skip
    """Fill the weights of pair p, the documents a < b, in every weighting.

    types: as `weigh_groups` fills them. largest: values of a click on a and on b.
    """
    pairs.i[p], pairs.j[p] = a, b
    for w in range(tables.weights.shape[0]):
        kinds, mirror = types[tables.counts[w]]
        weights = tables.weights[w, segment]
        factor = saturation if tables.saturated[w] else 1.0
        pairs.u_ij[p, w] = factor * _weigh(weights, a, b, kinds)
        pairs.u_ji[p, w] = factor * _weigh(weights, b, a, mirror)
        if w == 0:
            unclipped = tables.unclipped[segment]
            at_a, at_b, before = 1.0, 1.0, types[tables.counts[w]]
            if tables.counts[w] == BY_PATTERN:
                at_a, at_b, before = largest[0], largest[1], types[BY_PATTERN + 1]
            _add_health(weights, unclipped, a, b, kinds, before[0], factor, at_a, health)
            _add_health(weights, unclipped, b, a, mirror, before[1], factor, at_b, health)


@kernel()
def _count_patterns(
    groups: Histograms, clicks: Patterns, g: int, slot: np.ndarray, tables: WeightTables
) -> tuple[PatternCounts, PatternCounts]:
    """Return the counts of group g divided by p_k, and the same before clipping."""
    segment, limit = tables.of_group[g], tables.stopping.limit
    clipped = count_by_pattern(
        groups, clicks, g, slot, tables.session, tables.stopping, segment, limit
    )
    if limit == np.inf or tables.counts[0] != BY_PATTERN:
        return clipped, clipped
    before = count_by_pattern(
        groups, clicks, g, slot, tables.session, tables.stopping, segment, np.inf
    )
    return clipped, before


@kernel()
def weigh_groups(
    groups: Histograms, clicks: Patterns, tables: WeightTables, lists: Saturation,
    clicked: np.ndarray, pairs: WeightedPairs, health: np.ndarray,
) -> None:  # fmt: skip
    """Fill the pairs that can have weight: those with a clicked document, or all of them.

    clicks: the patterns of all clicks, those of `groups` or of a lower level of feedback. clicked:
    bool per document. pairs: arrays of zeros, pairs x weightings, with the offsets already filled.
    health: float64, 4 x K, of the first weighting, added to.
    """
    # Counts of a pair: AS_COUNTED, SMOOTHED, BY_PATTERN, and BY_PATTERN before clipping.
    types, c_ab, of_group = np.zeros((4, 2, 2, 4)), np.empty(2), tables.of_group
    saturates, by_pattern = tables.saturated.any(), (tables.counts == BY_PATTERN).any()
    total = matrix_for(lists) if saturates else np.zeros((0, 0))
    for q in range(lists.query_groups.size - 1):
        shared = saturates and adds_lists(lists, q)
        if shared:
            add_information(lists, groups, of_group, q, 1.0, total)
        for g in range(lists.query_groups[q], lists.query_groups[q + 1]):
            p, lo = pairs.offsets[g], groups.group_docs[g]
            if p == pairs.offsets[g + 1]:
                continue
            counts = count_group(groups, g, clicked, tables.session)
            slot, segment, rows = counts.slot, of_group[g], (-1, -1)
            if by_pattern:
                divided, before = _count_patterns(groups, clicks, g, slot, tables)
            for a in range(slot.size):
                for b in range(a + 1, slot.size):
                    if not (tables.all_pairs or slot[a] >= 0 or slot[b] >= 0):
                        continue
                    _count_types(counts, a, b, tables.psi[segment], tables.variance, c_ab, types)
                    largest = (1.0, 1.0)
                    if by_pattern:
                        x, y = slot[a], slot[b]
                        _pattern_types(divided, x, y, types[2, 0], types[2, 1])
                        _pattern_types(before, x, y, types[3, 0], types[3, 1])
                        largest = (
                            divided.largest[x] if x >= 0 else 0.0,
                            divided.largest[y] if y >= 0 else 0.0,
                        )
                    factor = 1.0
                    if shared:
                        base = lists.query_rows[q]
                        rows = (lists.row_of[lo + a] - base, lists.row_of[lo + b] - base)
                    if saturates:
                        factor = saturation_factor(lists, g, segment, a, b, rows, total)
                    _weigh_pair(tables, segment, a, b, types, largest, factor, p, pairs, health)
                    p += 1
        if shared:
            add_information(lists, groups, of_group, q, 0.0, total)


@kernel()
def label_pairs(
    group_docs: np.ndarray, labels: np.ndarray, gains: np.ndarray, pairs: WeightedPairs
) -> None:
    """Weigh every pair of two known, different labels by the difference of their gains.

    group_docs: int64 offsets; labels: int32 per document, -1 unknown; gains: float64 by label.
    If pairs.i is empty, only pairs.offsets is filled: the first of two calls sizes the arrays.
    """
    p = 0
    for g in range(group_docs.size - 1):
        lo, n = group_docs[g], group_docs[g + 1] - group_docs[g]
        for a in range(n):
            for b in range(a + 1, n):
                y_a, y_b = labels[lo + a], labels[lo + b]
                if y_a == y_b or min(y_a, y_b) < 0:
                    continue
                if pairs.i.size:
                    pairs.i[p], pairs.j[p] = a, b
                    more = gains[y_a] - gains[y_b]
                    pairs.u_ij[p], pairs.u_ji[p] = max(more, 0.0), max(-more, 0.0)
                p += 1
        pairs.offsets[g + 1] = p
