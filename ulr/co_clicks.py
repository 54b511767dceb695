"""The prior on co-clicks, chosen from the log: a few sums, which add up over partitions."""

from __future__ import annotations

import numpy as np

from ulr.kernels.co_clicks import co_click_evidence
from ulr.kernels.pair_counts import clicked_places
from ulr.pair_counts import Histograms

# Powers of two: the likelihood is flat around its top, and a choice among few is the same for any
# order of the sums.
VARIANCES = 2.0 ** np.arange(-10, 5)


def co_click_gains(groups: Histograms, table_of: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """What each of VARIANCES gains in log likelihood over 0.

    psi: segments x K x K; table_of: which of them a group has.
    """
    gains = np.zeros(VARIANCES.size)
    clicked = np.zeros(int(groups.group_docs[-1]), np.bool_)
    clicked_places(groups.group_docs, groups.word_offsets, groups.words, clicked)
    co_click_evidence(
        groups.group_docs, groups.word_offsets, groups.words, groups.count_offsets,
        groups.counts, table_of, psi, clicked, VARIANCES, gains,
    )  # fmt: skip
    return gains


def best_variance(gains: np.ndarray) -> float:
    """The likeliest; 0, independent relevance, where nothing is likelier than that."""
    best = int(np.argmax(gains))
    return float(VARIANCES[best]) if gains[best] > 0 else 0.0
