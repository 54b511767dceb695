"""The ranks that train in this process: one of several workers, or two if there is one worker.

LightGBM's learner for one process differs from its distributed learner: it skips features that
could not split the parent node, and adds sums in another order of nodes, which occasionally gives
another tree. A single worker therefore trains as two ranks, each with half of the queries and half
of the threads, so that the model does not depend on the number of workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ulr.kernels.threads import use_threads
from ulr.training.checkpoint import TrainState
from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.local_communicator import local_pair
from ulr.training.distributed.peer import PeerLost
from ulr.training.loop import (
    AnyCommunicator,
    CheckpointCallback,
    IterationCallback,
    Timings,
    ignore,
)
from ulr.training.parameters import Learner
from ulr.training.plan import TrainPlan
from ulr.training.selection import Selection
from ulr.training.shard import RankShards


def rank_count(workers: int, queries: int) -> int:
    """Return the number of ranks of all workers; a single query cannot be split."""
    return max(workers, min(2, queries))


def train_local_ranks(
    communicator: Communicator,
    shards: Sequence[RankShards],
    plan: TrainPlan,
    learner: Learner,
    state: TrainState,
    *,
    threads: int,
    on_checkpoint: CheckpointCallback = ignore,
    on_iteration: IterationCallback = ignore,
) -> tuple[TrainState, Timings]:
    """Train one rank, or two that are threads. The callbacks are called by the first of them."""
    alone = len(shards) == 1
    per_rank = threads if alone else max(1, threads // 2)
    learner = replace(learner, lightgbm={**learner.lightgbm, "num_threads": per_rank})

    def train_rank(index: int, communicator: AnyCommunicator) -> tuple[TrainState, Timings]:
        use_threads(threads, callers=len(shards))
        own = Selection(communicator, plan, learner, shards[index])
        end = own.run(state, on_checkpoint, on_iteration) if index == 0 else own.run(state)
        return end, own.timings

    if alone:
        return train_rank(0, communicator)

    def train_thread(index: int, communicator: AnyCommunicator) -> tuple[TrainState, Timings]:
        with communicator:
            return train_rank(index, communicator)

    with local_pair() as pair, ThreadPoolExecutor(len(shards)) as pool:
        futures = [pool.submit(train_thread, *rank) for rank in enumerate(pair)]
    errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:  # a PeerLost is only the consequence of the other rank's error
        raise min(errors, key=lambda error: isinstance(error, PeerLost))
    return futures[0].result()
