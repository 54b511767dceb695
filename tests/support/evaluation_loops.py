"""Evaluation as plain loops over sessions: slow references for the tests of the estimators."""

from __future__ import annotations

import math


def ratio(xs, ws):
    """Return the value and standard error of sum x / sum w with queries as clusters.

    A residual x - value w keeps (1 - share)^2 of its own variance and share^2 of that of every
    other query; variances are taken in proportion to w^2.
    """
    top, bottom = sum(xs), sum(ws)
    value = top / bottom
    shares = [w / bottom for w in ws]
    scatter = sum((x / bottom - value * h) ** 2 for x, h in zip(xs, shares, strict=True))
    whole = sum(h**2 for h in shares)
    kept = sum((1 - h) ** 2 * h**2 + h**2 * (whole - h**2) for h in shares)
    return value, math.sqrt(scatter * whole / kept)


def rank_by(scores):
    """Return the rank of every document, from 1; equal scores keep their order."""
    order = sorted(range(len(scores)), key=lambda d: -scores[d])
    return [order.index(d) + 1 for d in range(len(scores))]


def click_sums(sessions, theta, scores):
    """Return {metric: [x, sessions, relevant]} of one query.

    sessions: (documents, clicks) of each session.
    """
    totals = {
        name: [0.0, 0, 0.0]
        for name in ("dcg", "mean_relevant_rank", "precision_at_1", "precision_at_3")
    }
    for documents, clicks in sessions:
        ranks = rank_by([scores[d] for d in documents])
        for sums in totals.values():
            sums[1] += 1
        for k, clicked in enumerate(clicks):
            if not clicked:
                continue
            weight = 1 / theta[k]
            values = {
                "dcg": 1 / math.log2(1 + ranks[k]), "mean_relevant_rank": ranks[k],
                "precision_at_1": float(ranks[k] <= 1), "precision_at_3": (ranks[k] <= 3) / 3,
            }  # fmt: skip
            for name, value in values.items():
                totals[name][0] += weight * value
                totals[name][2] += weight
    return totals


def pair_loss_sum(sessions, theta, psi, scores):
    """Return the joint-weighted loss over the clicked pairs of all sessions of one query."""
    total = 0.0
    for documents, clicks in sessions:
        for a, first in enumerate(documents):
            for b, second in enumerate(documents):
                if a == b or not clicks[a]:
                    continue
                weight = 1 / theta[a] - (1 / psi[a][b] if clicks[b] else 0)
                total += weight * math.log1p(math.exp(scores[second] - scores[first]))
    return total
