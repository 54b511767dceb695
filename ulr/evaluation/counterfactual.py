"""What clicks say of a ranking that was not shown (Joachims 2017; METHODS section 7).

A click at position k stands for 1 / theta_k relevant documents, so over the documents of a list
rhat = clicks / theta_k, and of any metric that adds up over documents with value v(rank)

    IPS    sum rhat v(rank) / sessions       unbiased: per session
    SNIPS  sum rhat v(rank) / sum rhat       per relevant document; less noise, a little bias

Under trust bias rhat = (clicks - sessions beta_k) / alpha_k (Oosterhuis 2022, eq. 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ulr.errors import UserError
from ulr.evaluation.shown import ShownDocuments
from ulr.evaluation.totals import Column
from ulr.propensity.examination import Examination

LOWER_IS_BETTER = ("arp", "pair_loss")


def is_lower_better(name: str) -> bool:
    """Whether a metric improves as it falls."""
    return name.removeprefix("snips_").removeprefix("ips_") in LOWER_IS_BETTER


def relevance(
    seen: ShownDocuments,
    pooled: Examination,
    by_segment: Mapping[str, Examination],
    *,
    affine: bool,
) -> np.ndarray:
    """rhat of every shown document: relevant sessions that its clicks stand for.

    Lists are no deeper than the curves, and the curves are all of one depth.
    """
    curves = [_curve(p, affine) for p in (pooled, *by_segment.values())]
    number = {name: n + 1 for n, name in enumerate(by_segment)}
    which = np.array([number.get(s, 0) for s in seen.shown.segment.to_pylist()], np.int64)
    alpha, beta = (np.stack([c[n] for c in curves]) for n in (0, 1))
    at = which[seen.group], seen.position - 1
    return (seen.clicks - seen.sessions[seen.group] * beta[at]) / alpha[at]


def _curve(given: Examination, affine: bool) -> tuple[np.ndarray, np.ndarray]:
    if not affine:
        return given.theta, np.zeros(given.theta.size)
    if given.alpha is None or given.beta is None:
        raise UserError(
            "evaluate.correction=affine needs alpha and beta; estimate them with "
            "propensities.estimator=affine, or use evaluate.correction=theta"
        )
    return given.alpha, given.beta


def click_columns(
    seen: ShownDocuments, rhat: np.ndarray, ranks: np.ndarray, cuts: Sequence[int]
) -> list[Column]:
    """IPS and SNIPS of DCG, ARP (the rank itself) and precision@k of a ranking."""
    values = {"dcg": 1 / np.log2(ranks + 1.0), "arp": ranks.astype(float)}
    values |= {f"precision_at_{k}": (ranks <= k) / k for k in cuts}
    sessions, relevant = seen.query_sessions, seen.by_query(rhat)
    columns = []
    for name, value in values.items():
        x = seen.by_query(rhat * value)
        columns += [
            Column(f"ips_{name}", None, x, sessions), Column(f"snips_{name}", None, x, relevant)
        ]  # fmt: skip
    return columns


def moved_columns(seen: ShownDocuments, ranks: np.ndarray) -> list[Column]:
    """Average rank of the documents first shown at each position (Hu 2019, figure 1)."""
    weight = seen.sessions[seen.group].astype(float)
    columns = []
    for k in range(1, int(seen.position.max(initial=0)) + 1):
        there = weight * (seen.position == k)
        w = seen.by_query(there)
        columns.append(Column("position_after", k, seen.by_query(there * ranks), w))
    return columns
