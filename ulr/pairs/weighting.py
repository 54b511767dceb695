"""Histograms of groups in, weighted pairs out: checks and allocation around the kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ulr.errors import UserError
from ulr.kernels.layout import (
    SMOOTHED,
    Histograms,
    Ragged,
    Stopping,
    WeightedPairs,
    WeightTables,
    offsets_of,
)
from ulr.kernels.pair_weights import label_pairs, weigh_groups
from ulr.kernels.patterns import count_positions
from ulr.kernels.saturation import Saturation, no_saturation
from ulr.pairs.health import WeightHealth

SESSION_WEIGHTS = ("none", "idcg")


def session_weight(kind: str, longest: int) -> np.ndarray:
    """Return the weight of a session with m clicks, m = 0 .. longest: 1, or 1 / IDCG(m)."""
    if kind not in SESSION_WEIGHTS:
        raise UserError(f"session_weight = {kind!r}: expected one of {', '.join(SESSION_WEIGHTS)}")
    weight = np.ones(longest + 1)
    if kind == "idcg":
        weight[1:] = 1 / np.cumsum(1 / np.log2(np.arange(longest) + 2.0))
    return weight


def weigh_histograms(
    groups: Histograms,
    table_of: np.ndarray,
    tables: np.ndarray,
    raw: np.ndarray,
    *,
    all_pairs: bool = False,
    session: str = "none",
    psi: np.ndarray | None = None,
    co_click_variance: float | None = None,
    counts: Sequence[int] = (SMOOTHED,),
    saturated: Sequence[bool] = (False,),
    saturation: Saturation | None = None,
    stopping: Stopping | None = None,
    clicks: Histograms | None = None,
) -> tuple[WeightedPairs, WeightHealth]:
    """Return the pairs of every group, and the health of the weights of the first weighting.

    tables: weightings x segments x 4 x K x K, clipped, or without the first axis for one weighting,
    whose weights are then one-dimensional. raw: segments x 4 x K x K, the first before clipping.
    table_of: int64 per group, the segment whose table it uses. With psi (segments, K, K) and a
    finite co_click_variance, co-clicks are shrunk first where `counts` is SMOOTHED. saturation: the
    lists of every query, for weightings that are `saturated`. stopping: for counts BY_PATTERN.
    clicks: all clicks, if `groups` are those of a higher level of feedback.
    """
    clicks = groups if clicks is None else clicks
    variance = np.inf if psi is None or co_click_variance is None else co_click_variance
    if psi is None:
        psi = np.ones((raw.shape[0], *raw.shape[2:]))
    sizes = groups.sizes
    longest, known = int(sizes.max(initial=0)), tables.shape[-1]
    if longest > known:
        raise UserError(
            f"a list has {longest} documents, but propensities are known for {known} positions; "
            f"estimate deeper positions, or set groups.max_position={known}"
        )
    clicked = count_positions(sizes, clicks.patterns)[1] > 0
    m = sizes if all_pairs else Ragged(groups.group_docs).select(clicked).lengths
    single = tables.ndim == raw.ndim
    weights = tables[None] if single else tables
    pairs = WeightedPairs.zeros(offsets_of(m * (sizes - m) + m * (m - 1) // 2), len(weights))
    health = np.zeros((4, known))
    weight_tables = WeightTables(
        np.asarray(table_of, np.int64), weights, raw, np.array(counts), np.array(saturated), psi,
        variance, session_weight(session, longest), all_pairs,
        stopping or Stopping(np.ones((len(raw), known)), np.ones(len(raw)), np.inf),
    )  # fmt: skip
    lists = saturation or no_saturation(groups)
    weigh_groups(groups, clicks.patterns, weight_tables, lists, clicked, pairs, health)
    if single:
        pairs = pairs._replace(u_ij=pairs.u_ij[:, 0], u_ji=pairs.u_ji[:, 0])
    return pairs, WeightHealth(*health)


def weigh_levels(
    levels: Sequence[Histograms], increments: Sequence[float], table_of: np.ndarray,
    tables: np.ndarray, raw: np.ndarray, *, variances: Sequence[float | None] = (), **options: Any,
) -> tuple[WeightedPairs, WeightHealth]:  # fmt: skip
    """Return the weighted pairs of graded feedback: one list of pairs, weights summed over levels.

    The weight of level l is its increment, gain(l) - gain(l - 1), times the method's weight of
    sessions with an event of level l or higher. levels: histograms, lowest first. variances: prior
    variance of co-clicks of each level. options: of `weigh_histograms`. In the health, the events
    of a session at several levels count as several.
    """
    variances = variances or [None] * len(levels)
    if len(levels) == 1 and increments[0] == 1:
        return weigh_histograms(
            levels[0], table_of, tables, raw, co_click_variance=variances[0], **options
        )
    u_ij, u_ji, health, pairs = 0.0, 0.0, WeightHealth.empty(), None
    for level, increment, variance in zip(levels, increments, variances, strict=True):
        if increment == 0 and pairs is not None:
            continue
        pairs, own = weigh_histograms(
            level, table_of, tables, raw, co_click_variance=variance, clicks=levels[0], **options
        )
        u_ij, u_ji = u_ij + increment * pairs.u_ij.astype(float), u_ji + increment * pairs.u_ji
        health = health + own.times(increment)
    if pairs is None:
        raise ValueError("feedback without levels")
    return pairs._replace(u_ij=np.float32(u_ij), u_ji=np.float32(u_ji)), health


def weigh_labels(groups: Histograms, labels: np.ndarray) -> WeightedPairs:
    """Return the pairs of documents with different golden labels (int per document, -1: unknown).

    The weight is the difference of the gains 2^y - 1, divided by the gain of label 4.
    """
    empty = WeightedPairs.zeros(np.zeros(groups.group_docs.size, np.int64))
    gains = (2.0 ** np.arange(int(labels.max(initial=0)) + 1) - 1) / (2.0**4 - 1)
    label_pairs(groups.group_docs, labels, gains, empty)
    pairs = WeightedPairs.zeros(empty.offsets)
    label_pairs(groups.group_docs, labels, gains, pairs)
    return pairs
