"""The data of a worker, read from pair files, and the training on it: trees or a linear ranker."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ulr.kernels.threads import use_threads
from ulr.training.bins import Bins
from ulr.training.checkpoint import TrainState
from ulr.training.data import read_pairs
from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.local_ranks import train_local_ranks
from ulr.training.distributed.prepare import TRAIN, VALIDATION, Placement, Prepared, read_shards
from ulr.training.linear import linear_data
from ulr.training.linear_ranker import train_linear
from ulr.training.loop import CheckpointCallback, IterationCallback, Timings, check_agreement
from ulr.training.shard import RankShards, ShardBuilder
from ulr.training.standardize import Standardization

if TYPE_CHECKING:  # it imports this file
    from ulr.training.distributed.task import Job

Train = Callable[[CheckpointCallback, IterationCallback], tuple[TrainState, Timings]]


@dataclass(frozen=True)
class Work:
    """Rows and pairs of a worker, its ranks, and the function that trains on them."""

    rows: int
    pairs: int
    ranks: int
    train: Train


def load_work(communicator: Communicator, job: Job, prepared: Prepared, start: TrainState) -> Work:
    """Read the queries of this worker."""
    if isinstance(prepared.encoding, Standardization):
        return _linear_work(communicator, job, prepared, prepared.encoding)
    return _tree_work(communicator, job, prepared.placement, prepared.encoding, start)


def _own_ranks(communicator: Communicator, placement: Placement) -> range:
    return range(communicator.rank, len(placement.rows), communicator.size)


def _tree_work(
    communicator: Communicator, job: Job, placement: Placement, bins: Bins, start: TrainState
) -> Work:
    shards = _build_shards(communicator, job, placement, bins, start.model)

    def train(
        on_checkpoint: CheckpointCallback, on_iteration: IterationCallback
    ) -> tuple[TrainState, Timings]:
        return train_local_ranks(
            communicator, shards, job.plan, job.learner, start, threads=job.threads,
            on_checkpoint=on_checkpoint, on_iteration=on_iteration,
        )  # fmt: skip

    rows = sum(own.train.rows for own in shards)
    return Work(rows, sum(own.train.data.pairs.pairs for own in shards), len(shards), train)


def _build_shards(
    communicator: Communicator, job: Job, placement: Placement, bins: Bins, model: str
) -> list[RankShards]:
    """Read and bin the rows of this worker: its ranks at the same time, if there are two."""
    ranks = _own_ranks(communicator, placement)
    threads = max(1, job.threads // len(ranks))  # LightGBM has one number of threads per process
    bins = replace(bins, parameters={**bins.parameters, "num_threads": threads})

    def build(rank: int) -> RankShards:
        counts = zip((TRAIN, VALIDATION), placement.rows[rank], strict=True)
        weights = {TRAIN: job.source.weights, VALIDATION: [job.source.validation_weights]}
        builders = {kind: ShardBuilder(bins, rows, model) for kind, rows in counts if rows}
        for kind, table in read_shards(job.source, placement, rank, threads=threads > 1):
            builders[kind].add(read_pairs([table], weights[kind]))
        shards = {kind: builder.finish() for kind, builder in builders.items()}
        return RankShards(shards[TRAIN], shards.get(VALIDATION))

    with ThreadPoolExecutor(len(ranks)) as pool:
        return list(pool.map(build, ranks))


def _linear_work(
    communicator: Communicator, job: Job, prepared: Prepared, standardization: Standardization
) -> Work:
    """Read the rows of all ranks of this worker as one: sums are exact in any order."""
    tables = (
        table
        for rank in _own_ranks(communicator, prepared.placement)
        for _, table in read_shards(job.source, prepared.placement, rank, threads=job.threads > 1)
    )
    first = job.source.weights[:1]  # method auto: there is no trial to choose by
    data = linear_data((read_pairs([table], first) for table in tables), standardization)

    def train(
        on_checkpoint: CheckpointCallback, on_iteration: IterationCallback
    ) -> tuple[TrainState, Timings]:
        use_threads(job.threads)
        state = train_linear(
            data, job.plan, standardization, prepared.biases, reduce=communicator.sum,
            on_iteration=on_iteration,
        )  # fmt: skip
        check_agreement(communicator, state)
        on_checkpoint(state)
        return state, Timings()

    return Work(data.pairs.rows, data.pairs.pairs, 1, train)
