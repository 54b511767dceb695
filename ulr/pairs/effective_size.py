"""The effective numbers of clicks and queries behind pair weights (docs/methods.md section 4.5).

The weight of a click is the sum of the weights of its document's pairs, divided by the document's
clicks. Kish's effective size of weights w is (sum w)^2 / sum w^2: the number of equal weights that
have the same relative variance.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np

from ulr.kernels.layout import PairLists, Ragged


@dataclass(frozen=True)
class EffectiveSize:
    """Totals that add over partitions of whole queries.

    clicks: clicks of documents in a pair. weight: their absolute weights. click_square,
    query_square: squared weights of the clicks, and of the queries.
    """

    clicks: float = 0.0
    weight: float = 0.0
    click_square: float = 0.0
    query_square: float = 0.0

    def __add__(self, other: EffectiveSize) -> EffectiveSize:
        return EffectiveSize(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def metrics(self) -> dict[str, float]:
        """Return the clicks, and the effective numbers of clicks and of queries."""
        sums = {"effective_clicks": self.click_square, "effective_queries": self.query_square}
        sizes = {name: self.weight**2 / s if s > 0 else 0.0 for name, s in sums.items()}
        return {"clicks": self.clicks, **sizes}


def effective_size(pairs: PairLists) -> EffectiveSize:
    """Return the totals of the first weighting."""
    first = pairs.weighting(0)
    start = first.group_docs[Ragged(first.group_pairs).owner()]
    documents = first.clicks.size
    weight = np.bincount(start + first.i, np.abs(first.u_ij), documents)
    weight += np.bincount(start + first.j, np.abs(first.u_ji), documents)
    clicks = first.clicks.astype(float)
    clicked = (clicks > 0) & (weight > 0)
    weight, clicks = np.where(clicked, weight, 0.0), np.where(clicked, clicks, 1.0)
    ends = first.group_docs[first.query_groups]
    by_query = np.diff(np.concatenate([[0.0], np.cumsum(weight)])[ends])
    return EffectiveSize(
        float(clicks[clicked].sum()), float(weight.sum()), float(weight @ (weight / clicks)),
        float(by_query @ by_query),
    )  # fmt: skip
