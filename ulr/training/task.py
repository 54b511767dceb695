"""What a worker does once it can talk to the others: agree where to start, take rows, train.

Knows the mesh and Arrow tables, but nothing of Spark: a test runs it on threads.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from ulr.errors import UserError
from ulr.kernels.threads import use_threads
from ulr.training.biases import Biases
from ulr.training.checkpoint import Checkpoints
from ulr.training.dataset import read_pairs
from ulr.training.mesh import Mesh
from ulr.training.partition import Bins, Shard, ShardBuilder
from ulr.training.state import TrainState, state_from_json
from ulr.training.telemetry import Reporter
from ulr.training.worker import TrainSpec, Worker

TRAIN, VALIDATION = "train", "validation"
Hook = Callable[[int, int, int], None]


@dataclass(frozen=True)
class Job:
    """One training, the same for all workers; everything in it can be pickled.

    rows: announced rows of each worker, to train on and to validate on.
    on_round: called on every worker with its rank, the attempt and the round that it has grown.
    """

    spec: TrainSpec
    bins: Bins
    rows: list[tuple[int, int]]
    biases: Biases | None
    checkpoints: Checkpoints | None
    token: str
    peer_timeout: float
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


def train_part(
    mesh: Mesh, tables: Iterable[tuple[str, pa.Table]], job: Job
) -> tuple[TrainState, Report]:
    """Train worker `mesh.rank` on its tables (each `train` or `validation`)."""
    job = with_threads(job)
    state = _agree(mesh, job)
    report = Report(mesh.rank, *job.rows[mesh.rank], resumed_at=state.rounds)
    if state.finished:
        return state, report
    start = time.monotonic()
    train, validation = take_shards(tables, job, mesh.rank, state.model)
    worker = Worker(mesh, job.spec, train, validation, state)
    mesh.allgather(b"ready")  # nobody's clock starts before all have their rows
    begun, waited = time.monotonic(), mesh.seconds
    state = _run(worker, job)
    seconds = {**vars(worker.timings), "ingest": begun - start, "train": time.monotonic() - begun}
    report.rows, report.pairs = train.rows, train.data.pairs.pairs
    report.seconds = {name: round(value, 6) for name, value in seconds.items()}
    report.seconds["network"] = round(mesh.seconds - waited, 6)
    report.network_calls, report.network_bytes = mesh.calls, mesh.bytes
    report.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return state, report


def with_threads(job: Job) -> Job:
    """The job with the number of threads of this task; numba's are set here and now."""
    use_threads(job.threads)
    settings = {**job.spec.learner.lightgbm, "num_threads": job.threads}
    learner = replace(job.spec.learner, lightgbm=settings)
    bins = replace(job.bins, parameters=settings)
    return replace(job, spec=replace(job.spec, learner=learner), bins=bins)


def take_shards(
    tables: Iterable[tuple[str, pa.Table]], job: Job, rank: int, model: str
) -> tuple[Shard, Shard | None]:
    """Rows as they come, into the dataset they are for."""
    announced = dict(zip((TRAIN, VALIDATION), job.rows[rank], strict=True))
    builders = {
        kind: ShardBuilder(job.bins, rows, model) for kind, rows in announced.items() if rows
    }
    for kind, table in tables:
        if table.num_rows:
            if kind not in builders:
                raise UserError(f"worker {rank} was sent {kind} rows, but none were announced")
            builders[kind].add(read_pairs([table]))
    shards = {kind: builder.finish() for kind, builder in builders.items()}
    return shards[TRAIN], shards.get(VALIDATION)


def _agree(mesh: Mesh, job: Job) -> TrainState:
    """The first worker looks for a checkpoint; all start from what it found."""
    own = b""
    if mesh.rank == 0 and job.checkpoints is not None:
        own = json.dumps(job.checkpoints.load(job.biases).as_json()).encode()
    found = bytes(mesh.allgather(own)[0])
    return state_from_json(json.loads(found), job.biases) if found else TrainState(
        biases=job.biases
    )  # fmt: skip


def _run(worker: Worker, job: Job) -> TrainState:
    rank = worker.mesh.rank
    reporter = Reporter(job.driver if rank == 0 else None, job.token)

    def tell(number: int, value: float | None) -> None:
        event: dict[str, Any] = {"round": number, "value": value, "attempt": job.attempt}
        reporter.tell(event | {name: round(s, 4) for name, s in vars(worker.timings).items()})
        if job.on_round is not None:
            job.on_round(rank, job.attempt, number)

    def save(state: TrainState) -> None:
        if rank == 0 and job.checkpoints is not None:
            job.checkpoints.save(state)

    try:
        return worker.run(save, tell)
    finally:
        reporter.close()
