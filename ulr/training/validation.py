"""Early stopping metrics, as totals over queries that add exactly over ranks.

`pair_loss` is the loss of the validation pairs under their weights: unbiased with `joint`, where
click metrics are misleading (Kurennoy 6.4; docs/methods.md section 5). `ndcg_at_K` needs golden
labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ulr.errors import UserError
from ulr.kernels.losses import UNITS, pair_loss
from ulr.kernels.ranking_metrics import ranking_metrics
from ulr.training.data import RankingData

PAIR_LOSS = "pair_loss"


@dataclass(frozen=True)
class Criterion:
    """A metric as totals: int64, the sum in units of 2^-20 and the number of its terms."""

    higher_is_better: bool
    totals: Callable[[np.ndarray, RankingData], np.ndarray]

    def value(self, totals: np.ndarray) -> float:
        """Return the mean, given the totals summed over all ranks."""
        return float(totals[0] / UNITS / totals[1]) if totals[1] else float("nan")


def make_criterion(name: str, sigmoid: float, *, positive: int) -> Criterion:
    """Return `pair_loss` or `ndcg_at_K`.

    positive: validation documents with a positive label, over all ranks.
    """
    cutoff = ndcg_cutoff(name)
    if cutoff is None:
        return Criterion(False, partial(_pair_totals, sigmoid=sigmoid))
    if not positive:
        raise UserError(
            f"train.early_stopping_metric = {name!r}: no validation document has a positive label; "
            "use train.early_stopping_metric=pair_loss"
        )
    return Criterion(True, partial(_ndcg_totals, cutoff=cutoff))


def ndcg_cutoff(name: str) -> int | None:
    """Return K of `ndcg_at_K`, or None for `pair_loss`; raise for any other metric."""
    if name == PAIR_LOSS:
        return None
    cutoff = name.removeprefix("ndcg_at_")
    if cutoff == name or not cutoff.isdigit() or int(cutoff) < 1:
        raise UserError(
            f"train.early_stopping_metric = {name!r}: expected pair_loss or ndcg_at_K, K from 1"
        )
    return int(cutoff)


def best_iteration(history: Sequence[float], higher_is_better: bool) -> int:
    """Return the first iteration, counted from 1, with the best value."""
    best = max(history) if higher_is_better else min(history)
    return list(history).index(best) + 1


def _pair_totals(scores: np.ndarray, data: RankingData, *, sigmoid: float) -> np.ndarray:
    return np.array([pair_loss(scores, data.pairs, sigmoid=sigmoid), data.pairs.pairs], np.int64)


def _ndcg_totals(scores: np.ndarray, data: RankingData, *, cutoff: int) -> np.ndarray:
    labels = np.maximum(data.labels, 0)
    values = ranking_metrics(scores, labels, data.pairs.query_rows, cuts=(cutoff,))[:, 0]
    known = ~np.isnan(values)
    return np.array([np.rint(values[known] * UNITS).sum(), known.sum()], np.int64)
