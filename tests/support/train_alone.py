"""Training in one process on published pair files: the reference for distributed training."""

from __future__ import annotations

import pyarrow.parquet as pq

from tests.support.in_memory import train_ranker
from ulr.features.split import sample_queries
from ulr.training.data import read_pairs, split_queries
from ulr.training.distributed.pair_files import PairFiles
from ulr.training.plan import TrainPlan
from ulr.training.trained import TrainedRanker


def train_alone(source: PairFiles, plan: TrainPlan) -> TrainedRanker:
    tables = [pq.read_table(file) for file in source.files]
    data = read_pairs(tables, source.weights)
    held_out = sample_queries(data.query_ids, plan.validation_fraction, "validation")
    validation = split_queries(read_pairs(tables, [source.validation_weights]), held_out)
    return train_ranker(split_queries(data, ~held_out), plan, validation=validation)
