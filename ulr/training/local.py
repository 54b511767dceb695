"""One process, without Spark, on data that is in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import lightgbm as lgb
import numpy as np

from ulr.engine.columns import hashes
from ulr.errors import UserError
from ulr.training.bins import in_sample, make_reference
from ulr.training.checkpoint import TrainState
from ulr.training.data import RankingData, split_queries
from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.local_ranks import Member, ranks_of, train_local_ranks
from ulr.training.loop import TrainSpec
from ulr.training.objective import Biases
from ulr.training.parameters import Learner, split_parameters
from ulr.training.shard import Bins, TrainShard, build_shard
from ulr.training.validation import best_round, cut_of


@dataclass(frozen=True)
class TrainedRanker:
    """The model, what was learned beside it, and how validation went (one value a round)."""

    booster: lgb.Booster
    best_iteration: int
    biases: Biases | None
    history: list[float] = field(default_factory=list)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Scores with the trees up to the best iteration."""
        return self.booster.predict(features, num_iteration=self.best_iteration)

    def model_text(self) -> str:
        """LightGBM's text form."""
        return self.booster.model_to_string(num_iteration=self.best_iteration)


def ranker_of(state: TrainState, early_stopping_metric: str) -> TrainedRanker:
    """The model at the end of training; with a history, the best prefix of its trees."""
    if not state.model:
        raise UserError(
            "not one tree could be split; lower lightgbm.min_sum_hessian_in_leaf, "
            "or train on more pairs"
        )
    best = state.num_iterations
    if state.history:
        best = best_round(state.history, cut_of(early_stopping_metric) is not None)
    booster = lgb.Booster(model_str=state.model)
    return TrainedRanker(booster, best, state.biases, list(state.history))


def train_ranker(
    data: RankingData,
    *,
    num_iterations: int,
    lightgbm: Mapping[str, Any],
    objective: str = "lambdarank",
    nonnegative_weights: bool = True,
    biases: Biases | None = None,
    validation: RankingData | None = None,
    early_stopping_metric: str = "pair_loss",
    early_stopping_round: int = 0,
    checkpoint_every: int = 0,
    after_round: Callable[[int, float | None], None] | None = None,
) -> TrainedRanker:
    """Grow up to `rounds` trees; with `validation` and `patience`, keep the best prefix of them.

    after_round: told the round's number and its validation value, if there is one.
    """
    cut_of(early_stopping_metric)
    learner = split_parameters(lightgbm, objective, nonnegative_weights)
    stops = validation is not None and early_stopping_round > 0
    if stops:
        _refuse_other_width(data, validation)
    spec = TrainSpec(
        num_iterations,
        learner,
        early_stopping_metric,
        early_stopping_round if stops else 0,
        checkpoint_every,
    )
    bins = bins_of(data, learner)
    state, _ = train_local_ranks(
        Communicator(0, [None], 0.0),
        _members(data, validation if stops else None, bins),
        spec,
        TrainState(biases=biases),
        threads=int(learner.lightgbm.get("num_threads", 0)) or (os.cpu_count() or 1),
        save=lambda state: None,
        tell=after_round or (lambda number, value: None),
    )
    return ranker_of(state, early_stopping_metric)


def bins_of(data: RankingData, learner: Learner) -> Bins:
    """Bins from a sample of the rows, which depends on the names of their queries alone."""
    sizes = np.diff(data.pairs.query_rows)
    sample = data.features[in_sample(hashes(data.query_ids), sizes, data.pairs.rows)]
    return Bins(make_reference(sample, learner.lightgbm), sample.shape[1], learner.lightgbm)


def _members(data: RankingData, validation: RankingData | None, bins: Bins) -> list[Member]:
    """Every other query to every rank."""
    ranks = ranks_of(1, data.pairs.queries)
    trains, checks = _dealt(data, ranks, bins), [None] * ranks
    if validation is not None:
        checks = _dealt(validation, ranks, bins)
    return [Member(t, v) for t, v in zip(trains, checks, strict=True)]


def _dealt(data: RankingData, ranks: int, bins: Bins) -> list[TrainShard | None]:
    turn = np.arange(data.pairs.queries) % ranks
    return [_shard(split_queries(data, turn == rank), bins) for rank in range(ranks)]


def _shard(part: RankingData, bins: Bins) -> TrainShard | None:
    return build_shard([part], bins, part.pairs.rows) if part.pairs.rows else None


def _refuse_other_width(data: RankingData, validation: RankingData) -> None:
    if validation.features.shape[1] != data.features.shape[1]:
        raise UserError(
            f"validation rows have {validation.features.shape[1]} features, training rows "
            f"{data.features.shape[1]}; build both pair tables from the same features"
        )
