"""The prior on co-clicks, estimated from the log: three sums, which add up over partitions."""

from __future__ import annotations

import numpy as np

from ulr.kernels.layout import Histograms
from ulr.kernels.pair_weights import PAIRS, REACH, SPREAD, clicked_places, co_click_spread


def co_click_sums(groups: Histograms, table_of: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """What is needed of some groups. psi: segments x K x K; table_of: which of them each has."""
    sums = np.zeros(3)
    clicked = np.zeros(int(groups.group_docs[-1]), np.bool_)
    clicked_places(groups.group_docs, groups.word_offsets, groups.words, clicked)
    co_click_spread(
        groups.group_docs, groups.word_offsets, groups.words, groups.count_offsets,
        groups.counts, table_of, psi, clicked, sums,
    )  # fmt: skip
    return sums


def prior_variance(sums: np.ndarray) -> float:
    """v of all the groups whose sums were added up; 0, independent relevance, if nothing tells.

    Two digits: the last bits of a sum depend on how the groups are split, and no more is known.
    """
    if sums[REACH] <= 0:
        return 0.0
    return float(f"{max(0.0, (sums[SPREAD] - sums[PAIRS]) / sums[REACH]):.2g}")
