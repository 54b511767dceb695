"""Training in this process on data in memory, for tests and benchmarks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ulr.engine.columns import hashes
from ulr.training.bins import Bins, in_sample, make_bins
from ulr.training.checkpoint import TrainState
from ulr.training.data import RankingData, split_queries
from ulr.training.distributed.communicator import single_rank
from ulr.training.distributed.local_ranks import rank_count, train_local_ranks
from ulr.training.linear import linear_data
from ulr.training.linear_ranker import train_linear
from ulr.training.loop import IterationCallback, ignore
from ulr.training.parameters import Learner
from ulr.training.plan import LINEAR, TrainPlan
from ulr.training.shard import RankShards, TrainShard, build_shard
from ulr.training.standardize import standardization_of
from ulr.training.trained import TrainedRanker, make_ranker


def train_ranker(
    data: RankingData,
    plan: TrainPlan,
    *,
    validation: RankingData | None = None,
    on_iteration: IterationCallback = ignore,
) -> TrainedRanker:
    """Train a model; early stopping needs `validation`."""
    learner = plan.learner()
    if plan.ranker == LINEAR:
        return make_ranker(_train_linear(data, plan, on_iteration), plan.early_stopping_metric)
    if not plan.validates:
        validation = None
    max_position = int(data.pairs.position.max(initial=1))
    if validation is not None:
        max_position = int(validation.pairs.position.max(initial=max_position))
    state, _ = train_local_ranks(
        single_rank(),
        _split_over_ranks(data, validation, sampled_bins(data, learner, plan.feature_names)),
        plan,
        learner,
        TrainState(biases=plan.initial_biases(max_position)),
        threads=int(learner.lightgbm.get("num_threads", 0)) or (os.cpu_count() or 1),
        on_iteration=on_iteration,
    )
    return make_ranker(state, plan.early_stopping_metric)


def sampled_bins(data: RankingData, learner: Learner, names: Sequence[str] = ()) -> Bins:
    """Return the bins of a sample of the rows. names: of the features, if any."""
    return make_bins(_sample(data), learner.lightgbm, names)


def _sample(data: RankingData) -> np.ndarray:
    """Return rows that depend on the queries' names only, also in their order."""
    keys, sizes = hashes(data.query_ids), np.diff(data.pairs.query_rows)
    chosen = in_sample(keys, sizes, data.pairs.rows)
    order = np.argsort(np.repeat(keys, sizes)[chosen], kind="stable")
    sample: np.ndarray = data.features[chosen][order]
    return sample


def _train_linear(
    data: RankingData, plan: TrainPlan, on_iteration: IterationCallback
) -> TrainState:
    standardization = standardization_of(_sample(data))
    biases = plan.initial_biases(int(data.pairs.position.max(initial=1)))
    first = replace(data, pairs=data.pairs.weighting(0))  # method auto: no trial to choose by
    return train_linear(
        linear_data([first], standardization), plan, standardization, biases,
        on_iteration=on_iteration,
    )  # fmt: skip


def _split_over_ranks(
    data: RankingData, validation: RankingData | None, bins: Bins
) -> list[RankShards]:
    """Give every n-th query to each of n ranks; a rank may have no validation query."""
    ranks = rank_count(1, data.pairs.queries)

    def shard(data: RankingData, rank: int) -> TrainShard:
        part = split_queries(data, np.arange(data.pairs.queries) % ranks == rank)
        return build_shard([part], bins, part.pairs.rows)

    shards = []
    for rank in range(ranks):
        held_out = None
        if validation is not None and validation.pairs.queries > rank:
            held_out = shard(validation, rank)
        shards.append(RankShards(shard(data, rank), held_out))
    return shards
