"""Validation metrics, as totals over blocks of queries that add exactly over ranks.

`pair_loss` is the loss of the validation pairs. Its weights are those of `joint`, multiplied by
precision and saturated with traffic, which leaves the minimiser of each pair unchanged
(docs/methods.md section 5.1, which says when `joint` is unbiased). Click metrics are misleading
(Kurennoy 6.4). `ndcg_at_K` needs golden labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ulr.errors import UserError
from ulr.kernels.layout import PairLists
from ulr.kernels.losses import UNITS
from ulr.kernels.pair_loss import pair_losses
from ulr.kernels.ranking_metrics import ranking_metrics
from ulr.training.data import RankingData

PAIR_LOSS = "pair_loss"
BLOCKS = 32  # of queries, by a hash of their names; they give standard errors
_STEPS = 16.0  # of a logarithm to the base 2
_MAX_WEIGHT = 4096.0  # of a query, relative to the geometric mean
Reduce = Callable[[np.ndarray], np.ndarray]
Totals = Callable[[np.ndarray, RankingData, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Criterion:
    """A metric as totals: int64, the sum of each block in units of 2^-20, then the terms of all."""

    higher_is_better: bool
    totals: Totals

    def value(self, totals: np.ndarray) -> float:
        """Return the mean, given the totals summed over all ranks."""
        return float(totals[:-1].sum() / UNITS / totals[-1]) if totals[-1] else float("nan")


def block_of(keys: np.ndarray) -> np.ndarray:
    """Return the block of each query, int64. keys: uint64, a hash of its name."""
    return (keys % np.uint64(BLOCKS)).astype(np.int64)


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


def effective_queries(pairs: PairLists | None, reduce: Reduce) -> float:
    """Return how many queries of equal weight are worth as much as those of all ranks (Kish).

    A query's weight is the sum of the absolute weights of its pairs. pairs: of this rank. The sums
    are of integers, relative to the geometric mean of the weights, and the same on all ranks.
    """
    weight = np.zeros(0) if pairs is None else _query_weights(pairs)
    logarithms = np.rint(_STEPS * np.log2(weight)).sum()
    total, queries = reduce(np.array([logarithms, weight.size], np.int64))
    if not queries:
        return 0.0
    relative = np.minimum(weight / 2.0 ** (total / queries / _STEPS), _MAX_WEIGHT)
    powers = np.rint(UNITS * np.stack([relative, relative**2]))
    sums = reduce(powers.sum(axis=1).astype(np.int64))
    return float((sums[0] / UNITS) ** 2 / (sums[1] / UNITS))


def _query_weights(pairs: PairLists) -> np.ndarray:
    """Return the weight of each query that has any, float64."""
    counts = np.diff(pairs.group_pairs[pairs.query_groups])
    owner = np.repeat(np.arange(pairs.queries), counts)
    weight = np.bincount(owner, np.abs(pairs.u_ij) + np.abs(pairs.u_ji), pairs.queries)
    return weight[weight > 0]


def _pair_totals(
    scores: np.ndarray, data: RankingData, block: np.ndarray, *, sigmoid: float
) -> np.ndarray:
    losses = pair_losses(scores, data.pairs, block, BLOCKS, sigmoid=sigmoid)[0]
    return np.append(losses, data.pairs.pairs)


def _ndcg_totals(
    scores: np.ndarray, data: RankingData, block: np.ndarray, *, cutoff: int
) -> np.ndarray:
    labels = np.maximum(data.labels, 0)
    values = ranking_metrics(scores, labels, data.pairs.query_rows, cuts=(cutoff,))[:, 0]
    known = ~np.isnan(values)
    sums = np.bincount(block[known], np.rint(values[known] * UNITS), BLOCKS)
    return np.append(sums, known.sum()).astype(np.int64)
