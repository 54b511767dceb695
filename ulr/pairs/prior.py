"""The prior on co-clicks, estimated from the log (docs/methods.md section 4.3).

The estimate needs three sums, which add over partitions.
"""

from __future__ import annotations

import numpy as np

from ulr.kernels.co_click_spread import PAIRS, REACH, SPREAD, co_click_spread
from ulr.kernels.layout import Histograms
from ulr.kernels.patterns import count_positions


def co_click_sums(groups: Histograms, table_of: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """Return the three sums of some groups: float64, (3,).

    psi: (segments, K, K). table_of: int64 per group, the segment whose psi it uses.
    """
    clicked = count_positions(groups.sizes, groups.patterns)[1] > 0
    return co_click_spread(groups, table_of, psi, clicked)


def prior_variance(sums: np.ndarray) -> float:
    """Return the variance of the prior; 0, independent relevance, if there is no evidence.

    Rounded to two digits: the last bits of the sums depend on how the groups are partitioned.
    """
    if sums[REACH] <= 0:
        return 0.0
    return float(f"{max(0.0, (sums[SPREAD] - sums[PAIRS]) / sums[REACH]):.2g}")
