"""The driver's side of training: prepare a job, run it on the ranks of an engine with retries."""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial

import pyarrow as pa

from ulr.engine.blocks import open_table, table_bytes
from ulr.engine.interface import Batches, Engine, Items, Rank
from ulr.training.checkpoint import Checkpoints, TrainState, state_from_json
from ulr.training.distributed.communicator import Communicator, single_rank
from ulr.training.distributed.pair_files import PairFiles
from ulr.training.distributed.prepare import TrainingSize, prepare
from ulr.training.distributed.query_index import FileFunction, RunOnFiles
from ulr.training.distributed.recovery import run_with_retries
from ulr.training.distributed.rendezvous import Address, Listener
from ulr.training.distributed.task import Job, WorkerCallback, WorkerReport, train_worker
from ulr.training.distributed.telemetry import EventCallback, listen_for_events
from ulr.training.plan import TrainPlan
from ulr.training.trained import TrainedRanker, make_ranker

# Other workers detect a stopped one first. The engine finds it if there are none, or all stopped.
_ENGINE_TIMEOUTS = 1.5
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class DistributedOptions:
    """How training is distributed. It changes the run time, not the model.

    concurrent_runs: trainings that share the engine, this one included.
    """

    num_workers: int = 1
    worker_timeout: float = 30.0
    max_retries: int = 3
    concurrent_runs: int = 1


@dataclass(frozen=True)
class TrainingResult:
    """The model, a report of every worker, the reasons of failed attempts, and training sizes."""

    ranker: TrainedRanker
    reports: list[WorkerReport]
    failures: list[str]
    queries: int
    rows: int
    pairs: int


def train_on_ranks(
    engine: Engine,
    source: PairFiles,
    plan: TrainPlan,
    options: DistributedOptions,
    checkpoints: Checkpoints | None = None,
    *,
    on_event: EventCallback | None = None,
    on_iteration: WorkerCallback | None = None,
) -> TrainingResult:
    """Train one model on the pair files with at most `options.num_workers` workers.

    on_event: called on the driver after every iteration. on_iteration: see `Job`.
    """
    learner = plan.learner()
    engine.check_ranks(options.num_workers)
    prepared, workers = None, options.num_workers
    if workers > 1:
        prepared = prepare(_run_in_tasks(engine, source), source, plan, learner, workers)
        workers = prepared.placement.workers
    threads = int(learner.lightgbm.get("num_threads", 0))
    job = Job(
        source=source,
        plan=plan,
        learner=learner,
        prepared=prepared,
        checkpoints=checkpoints,
        token=secrets.token_hex(32),
        worker_timeout=options.worker_timeout,
        threads=threads or engine.threads(workers * options.concurrent_runs),
        on_iteration=on_iteration,
    )
    with _event_listener(engine, job.token, on_event) as address:
        (state, reports, size), failures = run_with_retries(
            replace(job, driver=address), partial(_train, engine, workers), options.max_retries
        )
    ranker = make_ranker(state, plan.early_stopping_metric)
    for warning in ranker.warnings:
        _LOG.warning("%s: %s", plan.method, warning)
    return TrainingResult(ranker, reports, failures, size.queries, size.rows, size.pairs)


def _train(
    engine: Engine, workers: int, job: Job
) -> tuple[TrainState, list[WorkerReport], TrainingSize]:
    """Train on one rank per worker."""
    timeout = _ENGINE_TIMEOUTS * job.worker_timeout
    results = engine.ranks(workers, partial(_run_worker, job=job), timeout=timeout)
    contents = [json.loads(result) for result in results]
    state = state_from_json(contents[0]["state"], job.plan.initial_biases(1))
    reports = [WorkerReport(**content["report"]) for content in contents]
    return state, reports, TrainingSize(**contents[0]["size"])


def _run_worker(rank: Rank, *, job: Job) -> bytes:
    """Train the worker of a rank; the first one also returns the model."""
    with _connect(rank, job) as communicator:
        state, report, size = train_worker(communicator, job)
        communicator.allgather(b"done")  # no worker disconnects while another needs it
    content = {"report": asdict(report)}
    if rank.number == 0:
        content |= {"state": state.as_json(), "size": asdict(size)}
    return json.dumps(content).encode()


def _connect(rank: Rank, job: Job) -> Communicator:
    if rank.size == 1:
        return single_rank()
    with contextlib.closing(Listener(rank.host)) as listener:
        addresses = map(json.loads, rank.gather(json.dumps(listener.address)))
        return listener.rendezvous(
            [(host, port) for host, port in addresses],
            rank.number,
            token=job.token,
            attempt=job.attempt,
            timeout=job.worker_timeout,
            sealed=job.sealed,
        )


def _run_in_tasks(engine: Engine, source: PairFiles) -> RunOnFiles:
    """Return a runner that uses tasks of the engine."""
    files = Items(range(len(source.all)), source.sizes())

    def run(function: FileFunction) -> list[pa.Table]:
        batches = engine.map(files, partial(_on_files, function=function))
        return [open_table(content.as_buffer()) for b in batches for content in b["content"]]

    return run


def _on_files(files: list[int], *, function: FileFunction) -> Batches:
    for file in files:
        table = function(file)
        if table.num_rows:
            yield pa.RecordBatch.from_pydict({"content": [table_bytes(table).to_pybytes()]})


@contextlib.contextmanager
def _event_listener(
    engine: Engine, token: str, on_event: EventCallback | None
) -> Iterator[Address | None]:
    """Yield the address for the first worker's events, or None without a callback."""
    address = engine.driver_address()
    if on_event is None or address is None:
        yield None
        return
    host, bind = address
    with listen_for_events(bind, token, on_event) as port:
        yield host, port
