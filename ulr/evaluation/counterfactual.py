"""Click-based estimates for a ranking that was not shown (docs/methods.md section 7.2).

With rhat, the estimated number of relevant sessions of a shown document (`exposure.py`), and a
metric that sums a value v(rank) over documents,

    IPS    sum rhat v(rank) / sessions     unbiased, per session (Joachims et al. 2017)
    SNIPS  sum rhat v(rank) / sum rhat     per relevant document; less variance, a small bias
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ulr.evaluation.exposure import Relevance
from ulr.evaluation.shown import ShownDocuments
from ulr.evaluation.totals import Column


def click_metrics(
    shown: ShownDocuments, relevance: Relevance, ranks: np.ndarray, cuts: Sequence[int]
) -> list[Column]:
    """Return IPS and SNIPS of DCG, of the mean rank of relevant documents, and of precision.

    ranks: int64 per shown document, from 1 within a list. cuts: ranks of precision.
    """
    values = {"dcg": 1 / np.log2(ranks + 1.0), "mean_relevant_rank": ranks.astype(float)}
    values |= {f"precision_at_{k}": (ranks <= k) / k for k in cuts}
    rhat, sessions = relevance.rhat, shown.query_sessions
    relevant, of_relevant = shown.sum_by_query(rhat), relevance.gradient(np.ones(ranks.size))
    columns = []
    for name, value in values.items():
        x, of_x = shown.sum_by_query(rhat * value), relevance.gradient(value)
        fixed = np.stack([of_x, np.zeros(of_x.size)])
        columns.append(Column(f"ips_{name}", None, x, sessions, fixed))
        both = np.stack([of_x, of_relevant])
        columns.append(Column(f"snips_{name}", None, x, relevant, both))
    return columns


def new_positions(shown: ShownDocuments, ranks: np.ndarray) -> list[Column]:
    """Return the average new rank of the documents displayed at each position, by sessions.

    This is figure 1 of Hu et al. 2019. ranks: int64 per shown document.
    """
    sessions = shown.sessions[shown.group].astype(float)
    columns = []
    for position in range(1, int(shown.position.max(initial=0)) + 1):
        weight = sessions * (shown.position == position)
        x, w = shown.sum_by_query(weight * ranks), shown.sum_by_query(weight)
        columns.append(Column("position_after", position, x, w))
    return columns
