"""What all workers share before training: the bins, and which rank has which queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ulr.errors import TemporaryFailure
from ulr.training.biases import LearnedBiases
from ulr.training.bins import Bins, check_names, make_bins
from ulr.training.distributed.balance import assign_queries
from ulr.training.distributed.local_ranks import rank_count
from ulr.training.distributed.pair_files import PairFiles, read_batches
from ulr.training.distributed.query_index import (
    QueryIndex,
    RunOnFiles,
    build_query_index,
    sample_rows,
)
from ulr.training.parameters import Learner
from ulr.training.plan import LINEAR, TrainPlan
from ulr.training.standardize import Standardization, standardization_of

TRAIN, VALIDATION = "train", "validation"


@dataclass(frozen=True)
class Placement:
    """The ranks of all queries. Rank r belongs to the worker r modulo the number of workers.

    file, group  int32 per row group   where it is
    first        int64, row groups + 1 its first query
    rank         int32 per query       the rank that trains on it
    validation   bool per query        whether it is held out
    rows         per rank              rows for training and for validation
    """

    workers: int
    file: np.ndarray
    group: np.ndarray
    first: np.ndarray
    rank: np.ndarray
    validation: np.ndarray
    rows: list[tuple[int, int]]


@dataclass(frozen=True)
class TrainingSize:
    """Queries, rows and pairs that all workers train on."""

    queries: int
    rows: int
    pairs: int


@dataclass(frozen=True)
class Prepared:
    """Bins, or the scale of features of a linear ranker; placement of the queries, biases before
    the first iteration, and size."""

    encoding: Bins | Standardization
    placement: Placement
    biases: LearnedBiases | None
    size: TrainingSize


def prepare(
    run: RunOnFiles, source: PairFiles, plan: TrainPlan, learner: Learner, workers: int
) -> Prepared:
    """Read the files twice: for the sizes of queries, and for a sample of rows."""
    index = _drop_unused_validation(build_query_index(run, source), plan)
    sample = sample_rows(run, source, index)
    train = ~index.validation
    counts = (int(count[train].sum()) for count in (train, index.rows, index.pairs))
    return Prepared(
        encoding=_encoding(sample, plan, learner),
        placement=place(index, workers),
        biases=plan.initial_biases(index.max_position),
        size=TrainingSize(*counts),
    )


def _encoding(sample: np.ndarray, plan: TrainPlan, learner: Learner) -> Bins | Standardization:
    if plan.ranker == LINEAR:
        check_names(plan.feature_names, sample.shape[1])
        return standardization_of(sample)
    return make_bins(sample, learner.lightgbm, plan.feature_names)


def _drop_unused_validation(index: QueryIndex, plan: TrainPlan) -> QueryIndex:
    """Train on the held-out queries too unless early stopping needs them."""
    if plan.validates and not index.validation.all():
        return index
    return replace(index, validation=np.zeros_like(index.validation))


def place(index: QueryIndex, num_workers: int) -> Placement:
    """Assign every query to a rank of at most `num_workers` workers."""
    queries = int((~index.validation).sum())
    workers = min(num_workers, queries)
    ranks = rank_count(workers, queries)
    starts = np.diff(index.file, prepend=-1) != 0
    starts |= np.diff(index.group, prepend=-1) != 0
    first = np.flatnonzero(starts)
    group = np.cumsum(starts) - 1
    rank = assign_queries(index.rows, index.pairs, index.validation, group, ranks)
    counts = [
        np.bincount(rank[chosen], index.rows[chosen], ranks).astype(int).tolist()
        for chosen in (~index.validation, index.validation)
    ]
    return Placement(
        workers, index.file[first], index.group[first], np.append(first, rank.size), rank,
        index.validation, list(zip(*counts, strict=True)),
    )  # fmt: skip


def read_shards(
    source: PairFiles, placement: Placement, rank: int, *, threads: bool = False
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the queries of a rank in batches: TRAIN or VALIDATION, rows of pairs.

    Only the row groups that contain its queries are read.
    """
    own = placement.rank == rank
    wanted = np.logical_or.reduceat(own, placement.first[:-1])
    for file in np.unique(placement.file[wanted]):
        chosen = np.flatnonzero(wanted & (placement.file == file))
        groups = placement.group[chosen].tolist()
        at = dict(zip(groups, placement.first[chosen].tolist(), strict=True))
        end = dict(zip(groups, placement.first[chosen + 1].tolist(), strict=True))
        for group, table in read_batches(source, int(file), groups=groups, threads=threads):
            span = slice(at[group], at[group] + table.num_rows)
            if span.stop > end[group]:
                raise TemporaryFailure("the pairs table changed while it was read, run again")
            at[group] = span.stop
            held_out = placement.validation[span]
            for kind, rows in ((TRAIN, own[span] & ~held_out), (VALIDATION, own[span] & held_out)):
                if rows.any():
                    yield kind, table if rows.all() else table.filter(pa.array(rows))
