"""One process without Spark, on published pair files: what every fleet is held to."""

from __future__ import annotations

import pyarrow.parquet as pq

from ulr.features.split import sample_queries
from ulr.training.data import read_pairs, split_queries
from ulr.training.distributed.shuffle import PairFiles
from ulr.training.local import TrainedRanker, train_ranker
from ulr.training.objective import first_biases
from ulr.training.plan import LEARNED, TrainPlan


def train_alone(source: PairFiles, plan: TrainPlan) -> TrainedRanker:
    """Train on most queries, stop on the rest."""
    data = read_pairs(pq.read_table(file) for file in source.files)
    aside = sample_queries(data.query_ids, plan.validation_fraction, "validation")
    bins = min(plan.position_bins, int(data.pairs.position.max(initial=1)))
    return train_ranker(
        split_queries(data, ~aside),
        num_iterations=plan.num_iterations,
        lightgbm=plan.lightgbm,
        objective=plan.objective,
        nonnegative_weights=plan.nonnegative_weights,
        biases=first_biases(bins, plan.bias_regularization, plan.theta)
        if plan.method == LEARNED
        else None,
        validation=split_queries(data, aside),
        early_stopping_metric=plan.early_stopping_metric,
        early_stopping_round=plan.early_stopping_round,
        checkpoint_every=plan.checkpoint_every,
    )
