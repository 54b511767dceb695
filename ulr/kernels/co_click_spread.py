"""The scatter of co-clicks around those of independent relevance (docs/methods.md section 4.3)."""

from __future__ import annotations

import numpy as np

from ulr.kernels.click_counts import count_group, independent_co_clicks
from ulr.kernels.jit import kernel
from ulr.kernels.layout import Histograms

PAIRS, SPREAD, REACH = range(3)  # pairs, sum of (C - m)^2 / s, sum of m^2 (1 - 1 / c) / s


@kernel()
def _add_pair(co_clicks: float, m: float, rarer: float, sessions: float, sums: np.ndarray) -> None:
    s = m * (1.0 - m / rarer) * (sessions - rarer) / max(sessions - 1.0, 1.0)
    if rarer > 1.0 and s > 1e-9 * m:
        sums[PAIRS] += 1.0
        sums[SPREAD] += (co_clicks - m) ** 2 / s
        sums[REACH] += m * m * (1.0 - 1.0 / rarer) / s


@kernel()
def co_click_spread(
    groups: Histograms, of_group: np.ndarray, psi: np.ndarray, clicked: np.ndarray
) -> np.ndarray:
    """Return the sums PAIRS, SPREAD and REACH (float64, 3) over all pairs of clicked documents.

    of_group: int64, segment of each group; psi: segments x K x K; clicked: bool per document.
    """
    sums = np.zeros(3)
    longest = 0
    for g in range(groups.group_docs.size - 1):
        longest = max(longest, groups.group_docs[g + 1] - groups.group_docs[g])
    session = np.ones(longest + 1)  # every session counts once, whatever its weight in training
    for g in range(groups.group_docs.size - 1):
        if clicked[groups.group_docs[g] : groups.group_docs[g + 1]].sum() < 2:
            continue
        counts = count_group(groups, g, clicked, session)
        slot, single, table = counts.slot, counts.single, psi[of_group[g]]
        for a in range(slot.size):
            for b in range(a + 1, slot.size):
                x, y = slot[a], slot[b]
                if x >= 0 and y >= 0:
                    m = independent_co_clicks(counts, a, b, table)
                    rarer = min(single[0, x], single[0, y])
                    _add_pair(counts.both[0, x, y], m, rarer, counts.total[0], sums)
    return sums
