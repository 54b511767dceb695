"""The work of one worker: agree on the state to start from, build the shards, train.

Independent of Spark: it takes a `Communicator` and Arrow tables, so tests run it on threads.
"""

from __future__ import annotations

import contextlib
import json
import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from ulr.errors import UserError
from ulr.training.bins import Bins
from ulr.training.checkpoint import Checkpoints, TrainState, state_from_json
from ulr.training.data import read_pairs
from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.local_ranks import train_local_ranks
from ulr.training.distributed.rendezvous import Address
from ulr.training.distributed.telemetry import EventSender
from ulr.training.loop import Timings
from ulr.training.objective import Biases
from ulr.training.parameters import Learner
from ulr.training.plan import TrainPlan
from ulr.training.shard import RankShards, ShardBuilder

TRAIN, VALIDATION = "train", "validation"
WorkerCallback = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Job:
    """One training, the same for all workers; it can be pickled.

    rows: per rank, its rows for training and for validation. Rank r belongs to the worker r
        modulo the number of workers.
    on_iteration: called on every worker with its rank, the attempt and the iteration.
    """

    plan: TrainPlan
    learner: Learner
    bins: Bins
    rows: list[tuple[int, int]]
    biases: Biases | None
    checkpoints: Checkpoints | None
    token: str
    worker_timeout: float
    threads: int = 1
    attempt: int = 1
    driver: Address | None = None
    on_iteration: WorkerCallback | None = None


@dataclass(frozen=True)
class WorkerReport:
    """What one worker did: its part of the data, seconds, traffic and memory."""

    rank: int
    rows: int
    pairs: int
    resumed_at: int
    seconds: dict[str, float] = field(default_factory=dict)
    network_calls: int = 0
    network_bytes: int = 0
    peak_bytes: int = 0
    grown_bytes: int = 0  # from before the first row to the peak


def train_worker(
    communicator: Communicator, tables: Iterable[tuple[int, str, pa.Table]], job: Job
) -> tuple[TrainState, WorkerReport]:
    """Train worker `communicator.rank`. tables: rank, TRAIN or VALIDATION, rows of pairs."""
    start = _starting_state(communicator, job)
    if start.finished:
        return start, WorkerReport(communicator.rank, 0, 0, start.num_iterations)
    reset_peak()
    started, bytes_before = time.monotonic(), resident_bytes()
    shards = _build_shards(tables, job, communicator, start.model)
    communicator.allgather(b"ready")  # so that no worker's time includes another one's ingestion
    ingested, network_before = time.monotonic(), communicator.seconds
    state, timings = _train(communicator, shards, job, start)
    seconds = {**vars(timings), "ingest": ingested - started, "train": time.monotonic() - ingested}
    if len(shards) == 1:
        seconds["network"] = communicator.seconds - network_before
    peak = peak_bytes()
    return state, WorkerReport(
        rank=communicator.rank,
        rows=sum(own.train.rows for own in shards),
        pairs=sum(own.train.data.pairs.pairs for own in shards),
        resumed_at=start.num_iterations,
        seconds={name: round(value, 6) for name, value in seconds.items()},
        network_calls=communicator.calls,
        network_bytes=communicator.bytes,
        peak_bytes=peak,
        grown_bytes=max(peak - bytes_before, 0),
    )


def _starting_state(communicator: Communicator, job: Job) -> TrainState:
    """Return the checkpoint as the first worker reads it, so that all start from the same one."""
    state = TrainState(biases=job.biases)
    if communicator.rank == 0 and job.checkpoints is not None:
        state = job.checkpoints.load(job.biases)
    content = communicator.allgather(json.dumps(state.as_json()).encode())[0]
    return state_from_json(json.loads(bytes(content)), job.biases)


def _build_shards(
    tables: Iterable[tuple[int, str, pa.Table]], job: Job, communicator: Communicator, model: str
) -> list[RankShards]:
    """Bin the rows as they arrive, per rank of this worker."""
    bins = replace(job.bins, parameters={**job.bins.parameters, "num_threads": job.threads})
    ranks = range(communicator.rank, len(job.rows), communicator.size)
    builders = {
        (rank, kind): ShardBuilder(bins, rows, model)
        for rank in ranks
        for kind, rows in zip((TRAIN, VALIDATION), job.rows[rank], strict=True)
        if rows
    }
    for rank, kind, table in tables:
        if table.num_rows:
            if (rank, kind) not in builders:
                raise UserError(
                    f"rank {rank} received {kind} rows and expected none; "
                    "the pairs table changed while it was read, run again"
                )
            builders[rank, kind].add(read_pairs([table]))
    shards = {key: builder.finish() for key, builder in builders.items()}
    return [RankShards(shards[rank, TRAIN], shards.get((rank, VALIDATION))) for rank in ranks]


def _train(
    communicator: Communicator, shards: list[RankShards], job: Job, state: TrainState
) -> tuple[TrainState, Timings]:
    first, started = communicator.rank == 0, time.monotonic()
    sender = EventSender(job.driver if first else None, job.token)

    def on_iteration(iteration: int, value: float | None) -> None:
        sender.send({"iteration": iteration, "value": value, "attempt": job.attempt,
                     "seconds": round(time.monotonic() - started, 4)})  # fmt: skip
        if job.on_iteration is not None:
            job.on_iteration(communicator.rank, job.attempt, iteration)

    def on_checkpoint(state: TrainState) -> None:
        if first and job.checkpoints is not None:
            job.checkpoints.save(state)

    try:
        return train_local_ranks(
            communicator, shards, job.plan, job.learner, state, threads=job.threads,
            on_checkpoint=on_checkpoint, on_iteration=on_iteration,
        )  # fmt: skip
    finally:
        sender.close()


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return _status_kilobytes("VmRSS:") * 1024


def peak_bytes() -> int:
    """Return the largest resident memory since `reset_peak`, or since the process started."""
    kilobytes = _status_kilobytes("VmHWM:") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes * 1024


def reset_peak() -> None:
    """Reset the peak: Spark reuses its Python workers, so it may belong to an earlier task."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _status_kilobytes(name: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return 0
