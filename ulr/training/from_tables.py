"""From a published pairs table to a trained model: split, train, and what to remember of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from ulr.holdout import queries_aside
from ulr.storage import open_filesystem
from ulr.training.biases import first_biases
from ulr.training.dataset import RankingData, read_pairs, split_queries
from ulr.training.trainer import TrainedRanker, train_ranker

LEARNED = "t+/t-"  # the method whose biases are learned while training


@dataclass(frozen=True)
class TrainPlan:
    """Settings of one training, as plain values."""

    method: str
    rounds: int
    lightgbm: Mapping[str, Any]
    metric: str = "ndcg"
    repair: bool = True
    validation_share: float = 0.0
    stop_on: str = "pair_loss"
    patience: int = 0
    p: int = 2
    position_bins: int = 50
    theta: np.ndarray | None = None  # given: only t- is learned
    checkpoint_every: int = 50
    feature_names: Sequence[str] = ()  # written into the model; none: LightGBM's own


def load_pairs(url: str, files: Sequence[str]) -> RankingData:
    """The published files, in their order."""
    fs, _ = open_filesystem(url)
    return read_pairs(pq.read_table(f, filesystem=fs) for f in files)


def train_plan(
    data: RankingData,
    plan: TrainPlan,
    after_round: Callable[[int, float | None], None] | None,
) -> TrainedRanker:
    """Train on most queries, stop on the rest; which is which depends on their names alone."""
    aside = queries_aside(data.query_ids, plan.validation_share, "validation")
    stops = plan.patience > 0 and aside.any() and not aside.all()
    bins = min(plan.position_bins, int(data.pairs.position.max(initial=1)))
    learned = first_biases(bins, plan.p, plan.theta) if plan.method == LEARNED else None
    return train_ranker(
        split_queries(data, ~aside) if stops else data,
        rounds=plan.rounds,
        lightgbm=plan.lightgbm,
        metric=plan.metric,
        repair=plan.repair,
        biases=learned,
        validation=split_queries(data, aside) if stops else None,
        stop_on=plan.stop_on,
        patience=plan.patience,
        checkpoint_every=plan.checkpoint_every,
        after_round=after_round,
    )


def record_of(ranker: TrainedRanker, plan: TrainPlan) -> dict[str, Any]:
    """What is kept beside the model: how it was made and what was learned with it."""
    biases = ranker.biases
    return {
        "method": plan.method,
        "best_iteration": ranker.best_iteration,
        "validation": {plan.stop_on: ranker.history} if ranker.history else {},
        "t_plus": biases.t_plus.tolist() if biases else None,
        "t_minus": biases.t_minus.tolist() if biases else None,
        "lightgbm": dict(plan.lightgbm),
    }
