"""What early stopping looks at: totals over queries that add over workers exactly.

`pair_loss` is the loss of the validation pairs under their weights: unbiased with `joint`, where
plain click metrics mislead (Kurennoy 6.4). `ndcg_at_k` needs golden labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ulr.errors import UserError
from ulr.kernels.losses import UNITS, pair_loss
from ulr.kernels.ranking_metrics import ranking_metrics
from ulr.training.data import RankingData

PAIR_LOSS = "pair_loss"


@dataclass(frozen=True)
class Criterion:
    """A name, its totals (int64: value in units of 2^-20, and what to divide by), its direction."""

    name: str
    higher_is_better: bool
    totals: Callable[[np.ndarray], np.ndarray]

    def value(self, totals: np.ndarray) -> float:
        """The mean over all that was added up."""
        return float(totals[0] / UNITS / totals[1]) if totals[1] else float("nan")

    def better(self, new: float, old: float) -> bool:
        """Whether `new` improves on `old`."""
        return new > old if self.higher_is_better else new < old


def make_criterion(
    name: str, data: RankingData | None, sigmoid: float, *, positive: int
) -> Criterion:
    """`pair_loss`, or `ndcg_at_K`, on a worker's validation data; None: it has none.

    positive: validation documents with a positive label, over all workers.
    """
    cut = cut_of(name)
    if cut is None:
        return Criterion(name, False, lambda scores: _pair_totals(scores, data, sigmoid))
    if not positive:
        raise UserError(
            f"train.early_stopping_metric = {name!r}: no validation document has a positive label; "
            "use train.early_stopping_metric=pair_loss"
        )
    return Criterion(name, True, lambda scores: _ndcg_totals(scores, data, cut))


def cut_of(name: str) -> int | None:
    """K of `ndcg_at_K`, or None for `pair_loss`."""
    if name == PAIR_LOSS:
        return None
    cut = name.removeprefix("ndcg_at_")
    if cut == name or not cut.isdigit() or int(cut) < 1:
        raise UserError(
            f"train.early_stopping_metric = {name!r}: expected pair_loss or ndcg_at_K, K from 1"
        )
    return int(cut)


def best_round(history: Sequence[float], higher_is_better: bool) -> int:
    """The round, from 1, with the best value; the first of them."""
    best = max(history) if higher_is_better else min(history)
    return list(history).index(best) + 1


def _pair_totals(scores: np.ndarray, data: RankingData, sigmoid: float) -> np.ndarray:
    """Per pair, so that the number does not depend on how much data there is."""
    return np.array([pair_loss(scores, data.pairs, sigmoid=sigmoid), data.pairs.pairs], np.int64)


def _ndcg_totals(scores: np.ndarray, data: RankingData, cut: int) -> np.ndarray:
    labels = np.maximum(data.labels, 0)
    values = ranking_metrics(scores, labels, data.pairs.query_rows, cuts=(cut,))[:, 0]
    known = ~np.isnan(values)
    return np.array([np.rint(values[known] * UNITS).sum(), known.sum()], np.int64)
