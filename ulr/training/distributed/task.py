"""The work of one worker: agree on the state to start from, build the shards, train.

Independent of the engine: it takes a `Communicator` and reads files, so tests run it on threads.
"""

from __future__ import annotations

import contextlib
import json
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from ulr.training.checkpoint import Checkpoints, TrainState, state_from_json
from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.pair_files import PairFiles
from ulr.training.distributed.prepare import Prepared, TrainingSize, prepare
from ulr.training.distributed.query_index import run_on_threads
from ulr.training.distributed.rendezvous import Address
from ulr.training.distributed.telemetry import EventSender
from ulr.training.distributed.work import Train, load_work
from ulr.training.loop import Timings
from ulr.training.parameters import Learner
from ulr.training.plan import TrainPlan

WorkerCallback = Callable[[int, int, int], None]
_MAX_STATE_BYTES = 1 << 30  # of a checkpoint


@dataclass(frozen=True)
class Job:
    """One training, the same for all workers; it can be pickled.

    prepared: by the driver; None: a single worker prepares itself.
    on_iteration: called on every worker with its rank, the attempt and the iteration.
    sealed: False only to measure the time that encryption takes.
    """

    source: PairFiles
    plan: TrainPlan
    learner: Learner
    prepared: Prepared | None
    checkpoints: Checkpoints | None
    token: str
    worker_timeout: float
    threads: int = 1
    attempt: int = 1
    driver: Address | None = None
    on_iteration: WorkerCallback | None = None
    sealed: bool = True


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
    damaged_checkpoint: str = ""  # what was wrong with a checkpoint that was not used


def train_worker(
    communicator: Communicator, job: Job
) -> tuple[TrainState, WorkerReport, TrainingSize]:
    """Train worker `communicator.rank`."""
    reset_peak()
    started, bytes_before = time.monotonic(), resident_bytes()
    pa.set_cpu_count(job.threads)  # on Spark OMP_NUM_THREADS is set, which Arrow would use
    prepared = job.prepared or _prepare(job)
    start, damage = _starting_state(communicator, job, prepared)
    if start.finished:
        return start, WorkerReport(communicator.rank, 0, 0, start.num_iterations), prepared.size
    ready = time.monotonic()
    work = load_work(communicator, job, prepared, start)
    communicator.allgather(b"ready")  # so that no worker's time includes another one's ingestion
    ingested, network_before = time.monotonic(), communicator.seconds
    state, timings = _train(communicator, job, work.train)
    seconds = {**vars(timings), "prepare": ready - started, "ingest": ingested - ready,
               "train": time.monotonic() - ingested}  # fmt: skip
    if work.ranks == 1:
        seconds["network"] = communicator.seconds - network_before
    peak = peak_bytes()
    report = WorkerReport(
        rank=communicator.rank,
        rows=work.rows,
        pairs=work.pairs,
        resumed_at=start.num_iterations,
        seconds={name: round(value, 6) for name, value in seconds.items()},
        network_calls=communicator.calls,
        network_bytes=communicator.bytes,
        peak_bytes=peak,
        grown_bytes=max(peak - bytes_before, 0),
        damaged_checkpoint=damage,
    )
    return state, report, prepared.size


def _prepare(job: Job) -> Prepared:
    run = run_on_threads(len(job.source.all), job.threads)
    learner = replace(job.learner, lightgbm={**job.learner.lightgbm, "num_threads": job.threads})
    return prepare(run, job.source, job.plan, learner, workers=1)


def _starting_state(
    communicator: Communicator, job: Job, prepared: Prepared
) -> tuple[TrainState, str]:
    """Return the checkpoint as the first worker reads it, so that all start from the same one.

    The second value says what is wrong with a damaged checkpoint, on the first worker.
    """
    state, damage = TrainState(biases=prepared.biases), ""
    if communicator.rank == 0 and job.checkpoints is not None:
        state, damage = job.checkpoints.load(prepared.biases)
    own = json.dumps(state.as_json()).encode() if communicator.rank == 0 else b""
    content = communicator.allgather_messages(own, _MAX_STATE_BYTES)[0]
    return state_from_json(json.loads(content), prepared.biases), damage


def _train(communicator: Communicator, job: Job, train: Train) -> tuple[TrainState, Timings]:
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
        return train(on_checkpoint, on_iteration)
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
