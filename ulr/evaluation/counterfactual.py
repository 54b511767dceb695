"""Click-based estimates for a ranking that was not shown (docs/methods.md section 7).

A click at position k counts as 1 / theta_k relevant sessions, so a document's relevance is
estimated as rhat = clicks / theta_k. For a metric that sums a value v(rank) over documents,

    IPS    sum rhat v(rank) / sessions     unbiased, per session (Joachims et al. 2017)
    SNIPS  sum rhat v(rank) / sum rhat     per relevant document; less variance, a small bias

Under trust bias rhat = (clicks - sessions beta_k) / alpha_k (Oosterhuis 2022, eq. 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ulr.errors import UserError
from ulr.evaluation.shown import ShownDocuments
from ulr.evaluation.totals import Column
from ulr.propensity.examination import Examination


def estimate_relevance(
    shown: ShownDocuments,
    pooled: Examination,
    by_segment: Mapping[str, Examination],
    *,
    affine: bool,
) -> np.ndarray:
    """Return rhat per shown document, float64: the relevant sessions its clicks stand for.

    All curves have one depth, and no list is deeper.
    """
    curves = [_alpha_beta(examination, affine) for examination in (pooled, *by_segment.values())]
    alpha, beta = (np.stack(part) for part in zip(*curves, strict=True))
    curve = shown.window.tables_of({name: n for n, name in enumerate(by_segment, start=1)})
    at = curve[shown.group], shown.position - 1
    return (shown.clicks - shown.sessions[shown.group] * beta[at]) / alpha[at]


def _alpha_beta(examination: Examination, affine: bool) -> tuple[np.ndarray, np.ndarray]:
    if not affine:
        return examination.theta, np.zeros(examination.depth)
    if examination.alpha is None or examination.beta is None:
        raise UserError(
            "evaluate.correction=affine needs alpha and beta; estimate them with "
            "propensities.estimator=affine, or use evaluate.correction=theta"
        )
    return examination.alpha, examination.beta


def click_metrics(
    shown: ShownDocuments, rhat: np.ndarray, ranks: np.ndarray, cuts: Sequence[int]
) -> list[Column]:
    """Return IPS and SNIPS of DCG, of ARP (the rank itself) and of precision at each cut.

    rhat: float64, ranks: int64 from 1 within a list; both per shown document.
    """
    values = {"dcg": 1 / np.log2(ranks + 1.0), "arp": ranks.astype(float)}
    values |= {f"precision_at_{k}": (ranks <= k) / k for k in cuts}
    sessions, relevant = shown.query_sessions, shown.sum_by_query(rhat)
    columns = []
    for name, value in values.items():
        x = shown.sum_by_query(rhat * value)
        columns.append(Column(f"ips_{name}", None, x, sessions))
        columns.append(Column(f"snips_{name}", None, x, relevant))
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
