"""What a worker does once it can talk to the others: agree where to start, take rows, train.

Knows the mesh and Arrow tables, but nothing of Spark: a test runs it on threads.
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
from ulr.training.checkpoint import Checkpoints, TrainState, state_from_json
from ulr.training.data import read_pairs
from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.local_ranks import Member, train_local_ranks
from ulr.training.distributed.telemetry import Reporter
from ulr.training.loop import Timings, TrainSpec
from ulr.training.objective import Biases
from ulr.training.shard import Bins, ShardBuilder

TRAIN, VALIDATION = "train", "validation"
Hook = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Job:
    """One training, the same for all workers; everything in it can be pickled.

    rows: rows_per_rank rows of each rank, to train on and to validate on. Rank r belongs to worker
        r modulo their number.
    on_round: called on every worker with its rank, the attempt and the round that it has grown.
    """

    spec: TrainSpec
    bins: Bins
    rows: list[tuple[int, int]]
    biases: Biases | None
    checkpoints: Checkpoints | None
    token: str
    worker_timeout: float
    threads: int = 1
    attempt: int = 1
    driver: tuple[str, int] | None = None
    on_round: Hook | None = None


@dataclass
class Report:
    """What a worker has to say of itself."""

    rank: int
    rows: int
    pairs: int
    resumed_at: int
    seconds: dict[str, float] = field(default_factory=dict)
    network_calls: int = 0
    network_bytes: int = 0
    peak_bytes: int = 0
    grown_bytes: int = 0  # from the first row to the peak


def train_part(
    mesh: Communicator, tables: Iterable[tuple[int, str, pa.Table]], job: Job
) -> tuple[TrainState, Report]:
    """Train worker `mesh.rank` on its tables, each for a rank, to train or to validate on."""
    state = _agree(mesh, job)
    report = Report(mesh.rank, 0, 0, resumed_at=state.num_iterations)
    if state.finished:
        return state, report
    forget_peak()
    start, before = time.monotonic(), resident_bytes()
    members = take_rows(tables, job, mesh, state.model)
    mesh.allgather(b"ready")  # nobody's clock starts before all have their rows
    begun, waited = time.monotonic(), mesh.seconds
    state, timings = _run(mesh, members, job, state)
    seconds = {**vars(timings), "ingest": begun - start, "train": time.monotonic() - begun}
    if len(members) == 1:
        seconds["network"] = mesh.seconds - waited
    report.rows = sum(member.train.rows for member in members)
    report.pairs = sum(member.train.data.pairs.pairs for member in members)
    report.seconds = {name: round(value, 6) for name, value in seconds.items()}
    report.network_calls, report.network_bytes = mesh.calls, mesh.bytes
    report.peak_bytes = peak_bytes()
    report.grown_bytes = max(report.peak_bytes - before, 0)
    return state, report


def take_rows(
    tables: Iterable[tuple[int, str, pa.Table]], job: Job, mesh: Communicator, model: str
) -> list[Member]:
    """Rows as they come, into the dataset they are for."""
    bins = replace(job.bins, parameters={**job.bins.parameters, "num_threads": job.threads})
    ranks = range(mesh.rank, len(job.rows), mesh.size)
    builders = {
        (rank, kind): ShardBuilder(bins, rows, model)
        for rank in ranks
        for kind, rows in zip((TRAIN, VALIDATION), job.rows[rank], strict=True)
        if rows
    }
    for rank, kind, table in tables:
        if table.num_rows:
            if (rank, kind) not in builders:
                raise UserError(f"rank {rank} was sent {kind} rows, but none were rows_per_rank")
            builders[rank, kind].add(read_pairs([table]))
    shards = {key: builder.finish() for key, builder in builders.items()}
    return [Member(shards[rank, TRAIN], shards.get((rank, VALIDATION))) for rank in ranks]


def _agree(mesh: Communicator, job: Job) -> TrainState:
    """The first worker looks for a checkpoint; all start from what it found."""
    own = b""
    if mesh.rank == 0 and job.checkpoints is not None:
        own = json.dumps(job.checkpoints.load(job.biases).as_json()).encode()
    found = bytes(mesh.allgather(own)[0])
    return state_from_json(json.loads(found), job.biases) if found else TrainState(
        biases=job.biases
    )  # fmt: skip


def _run(
    mesh: Communicator, members: list[Member], job: Job, state: TrainState
) -> tuple[TrainState, Timings]:
    reporter = Reporter(job.driver if mesh.rank == 0 else None, job.token)

    def tell(number: int, value: float | None) -> None:
        reporter.tell({"round": number, "value": value, "attempt": job.attempt,
                       "seconds": round(time.monotonic() - begun, 4)})  # fmt: skip
        if job.on_round is not None:
            job.on_round(mesh.rank, job.attempt, number)

    def save(state: TrainState) -> None:
        if mesh.rank == 0 and job.checkpoints is not None:
            job.checkpoints.save(state)

    begun = time.monotonic()
    try:
        return train_local_ranks(
            mesh, members, job.spec, state, threads=job.threads, save=save, tell=tell
        )  # fmt: skip
    finally:
        reporter.close()


_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident_bytes() -> int:
    """What is resident now."""
    return _kilobytes("VmRSS:") * 1024


def peak_bytes() -> int:
    """The most that was resident since `forget_peak`, or since the process began."""
    return (_kilobytes("VmHWM:") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024


def forget_peak() -> None:
    """Begin anew: Spark's Python workers had other tasks before this one."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")


def _kilobytes(name: str) -> int:
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return 0
