"""The ranks that train in this process: one, among others elsewhere; or two, when it is alone.

LightGBM's learner for one process is not its learner for many with nobody to talk to: it passes
over features that its parent node could not be split on, and adds its sums up in another order of
nodes. Now and then that makes another tree. So a process that trains alone trains as two ranks,
each with half of the queries and half of the threads: one path, one model.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ulr.kernels.threads import use_threads
from ulr.training.checkpoint import TrainState
from ulr.training.distributed.communicator import Communicator, PeerLost, pair_within
from ulr.training.loop import IterationCallback, Save, Timings, TrainSpec, Worker
from ulr.training.shard import TrainShard


@dataclass(frozen=True)
class Member:
    """The rows of one rank."""

    train: TrainShard
    validation: TrainShard | None = None


def ranks_of(workers: int, queries: int) -> int:
    """How many ranks there are in all; a single query cannot be shared."""
    return max(workers, min(2, queries))


def train_local_ranks(
    mesh: Communicator,
    members: Sequence[Member],
    spec: TrainSpec,
    state: TrainState,
    *,
    threads: int,
    save: Save,
    tell: IterationCallback,
) -> tuple[TrainState, Timings]:
    """Train the members of this process; `save` and `tell` are called for the first."""
    meshes = [mesh] if len(members) == 1 else pair_within()
    each = threads if len(members) == 1 else max(1, threads // 2)
    spec = _with_threads(spec, each)

    def one(place: int) -> tuple[TrainState, Timings]:
        use_threads(threads)  # of a kernel; the crew takes turns with those
        own, first = meshes[place], place == 0
        try:
            worker = Worker(own, spec, members[place].train, members[place].validation, state)
            end = worker.run(save if first else _nothing, tell if first else _nothing)
            return end, worker.timings
        except BaseException as why:
            if own is not mesh:
                own.close(f"{type(why).__name__}: {why}")
            raise

    if len(members) == 1:
        return one(0)
    with ThreadPoolExecutor(len(members)) as pool:
        futures = [pool.submit(one, place) for place in range(len(members))]
    for own in meshes:
        own.close()
    raise_first([f.exception() for f in futures])
    return futures[0].result()


def raise_first(errors: Sequence[BaseException | None]) -> None:
    """The error that was the cause, rather than another rank's surprise at it."""
    raised = sorted((e for e in errors if e is not None), key=lambda e: isinstance(e, PeerLost))
    if raised:
        raise raised[0]


def _nothing(*_: object) -> None:
    """For the ranks that nobody listens to."""


def _with_threads(spec: TrainSpec, threads: int) -> TrainSpec:
    settings = {**spec.learner.lightgbm, "num_threads": threads}
    return replace(spec, learner=replace(spec.learner, lightgbm=settings))
