"""The prior on co-clicks, estimated from the log: three sums, which add up over partitions."""

from __future__ import annotations

import numpy as np

from ulr.kernels.layout import Histograms
from ulr.kernels.pair_weights import PAIRS, REACH, SPREAD, clicked_documents, co_click_spread


def co_click_sums(groups: Histograms, table_of: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """What is needed of some groups. psi: segments x K x K; table_of: which of them each has."""
    return co_click_spread(groups, table_of, psi, clicked_documents(groups))


def prior_variance(sums: np.ndarray) -> float:
    """v of all the groups whose sums were added up; 0, independent relevance, if nothing tells.

    Two digits: the last bits of a sum depend on how the groups are split, and no more is known.
    """
    if sums[REACH] <= 0:
        return 0.0
    return float(f"{max(0.0, (sums[SPREAD] - sums[PAIRS]) / sums[REACH]):.2g}")
