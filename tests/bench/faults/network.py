"""Attacks on the network of a training with two workers.

A proxy between the workers changes their traffic, or strangers connect to a listening worker. None
of them has the token. The workers must train the model of an undisturbed run, or end with
`PeerLost` and train it in the next attempt. They must not allocate what a header announces.
"""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq

from tests.bench.faults.campaign import Fault, Kind, Result, crashed, lost, seeded, survived
from tests.bench.faults.strangers import STRANGERS
from tests.support import man_in_the_middle
from tests.support.clicked_pairs import as_table, clicked_data
from tests.support.man_in_the_middle import ATTACKS, BACK, Link, ManInTheMiddle
from ulr.training.distributed.pair_files import PairFiles
from ulr.training.distributed.peer import HEADER
from ulr.training.distributed.prepare import prepare as prepare_shards
from ulr.training.distributed.query_index import run_on_threads
from ulr.training.distributed.rendezvous import Listener
from ulr.training.distributed.task import Job, train_worker
from ulr.training.plan import TrainPlan
from ulr.training.trained import make_ranker

_PLAN = TrainPlan(
    "joint", 8, {"num_leaves": 5, "learning_rate": 0.2, "min_data_in_leaf": 1, "num_threads": 1,
                 "min_sum_hessian_in_leaf": 3.0, "seed": 5},
    validation_fraction=0.3, early_stopping_round=8, checkpoint_every=4,
)  # fmt: skip
_TIMEOUT_S = 8.0  # train.worker_timeout
_SHORT_TIMEOUT_S = 3.0  # with it, a worker sends heartbeats every 0.6 s
_LIMIT_S = 75.0
_MEMORY = 3 << 30  # that a worker may allocate; a header can announce 4 GiB

# Attacks on heartbeats, which a worker sends only if it computes for long.
_ON_HEARTBEATS = ("change_heartbeat", "repeat", "reorder")

Side = Literal["initiator", "responder"]


@dataclass(frozen=True)
class Training:
    """A job for two workers, and the model that it gives without an attack."""

    job: Job
    model: str


@contextlib.contextmanager
def prepare(folder: Path) -> Iterator[Training]:
    """Write a small pair table, place it on two workers, and train without an attack."""
    table = as_table(clicked_data(60))
    files = [str(folder / f"part-{n}.parquet") for n in range(2)]
    for n, file in enumerate(files):
        pq.write_table(table.slice(30 * n, 30), file)
    source = PairFiles(str(folder), files, _PLAN.validation_fraction)
    learner = _PLAN.learner()
    shards = prepare_shards(run_on_threads(len(source.all), 1), source, _PLAN, learner, 2)
    job = Job(source, _PLAN, learner, shards, None, "a token", _TIMEOUT_S)
    results = _train(job)
    if {kind for kind, _ in results} != {"done"}:
        raise RuntimeError(f"two workers failed without an attack: {results}")
    yield Training(job, results[0][1])


def faults(training: Training, seed: int, quick: bool) -> list[Fault]:
    """Return every attack on the traffic, in both directions, and every kind of stranger."""
    attacks = ["change_byte", "huge_header"] if quick else [*ATTACKS, *_BYTE_ATTACKS]
    times = 1 if quick else 2
    between = [
        Fault(
            "network",
            name,
            partial(
                _attack,
                training=training,
                attack=attack,
                toward=toward,
                name=name,
                rng=seeded(seed, "network", name),
            ),
            _LIMIT_S,
        )
        for attack in attacks
        for toward in (("initiator",) if quick else ("initiator", "responder"))
        for n in range(times)
        for name in [f"{attack.replace('_', '-')}-{toward}-{n}"]
    ]
    strangers = ["idle"] if quick else list(STRANGERS)
    return between + [
        Fault("network", name, partial(_connect_strangers, training, stranger, seed, name),
              _LIMIT_S)
        for stranger in strangers
        for name in [f"strangers-{stranger}"]
    ]  # fmt: skip


def _attack(
    folder: Path, *, training: Training, attack: str, toward: Side, name: str, rng: random.Random
) -> Result:
    """Train with a proxy between the workers; the attack begins after a random frame."""
    job = training.job
    if on_heartbeats := attack in _ON_HEARTBEATS:
        job = replace(job, worker_timeout=_SHORT_TIMEOUT_S, on_iteration=_pause)
    frames = 0 if on_heartbeats else rng.randrange(40)
    chosen = _BYTE_ATTACKS.get(attack) or ATTACKS[attack]
    man_in_the_middle.ATTACKS[name] = _after(frames, chosen)
    if attack in BACK:
        man_in_the_middle.BACK.add(name)
    results = _train(job, lambda address: ManInTheMiddle(address, name, toward))
    return _judge(training, results, f"from frame {frames}")


def _pause(rank: int, attempt: int, iteration: int) -> None:
    """Compute for longer in some iterations, so that a worker sends heartbeats."""
    if iteration in {2 + rank, 5 + rank}:
        time.sleep(_SHORT_TIMEOUT_S / 2)


def _after(frames: int, attack: Callable[..., Any]) -> Callable[..., Any]:
    """Return the attack without the first frames."""
    passed = 0

    def attack_later(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
        nonlocal passed
        if passed < frames:
            passed += 1
            yield frame
            return False
        return (yield from attack(link, frame))

    return attack_later


def _change_value(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    """Flip a bit of the last byte of the first number, its sign or exponent, of a long frame."""
    if len(frame) < HEADER.size + 64:
        yield frame
        return False
    changed = bytearray(frame)
    changed[HEADER.size + 7] ^= 0x10
    yield bytes(changed)
    return True


def _insert(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    yield frame[: len(frame) // 3] + b"\x01\x00\x00" + frame[len(frame) // 3 :]
    return True


def _drop(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    """Leave a whole frame out."""
    return True
    yield b""


def _close(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    """Close the connection between two frames."""
    link.target.shutdown(socket.SHUT_RDWR)
    return True
    yield b""


_BYTE_ATTACKS = {"change_value": _change_value, "insert": _insert, "drop": _drop, "close": _close}


def _connect_strangers(
    training: Training, stranger: str, seed: int, name: str, folder: Path
) -> Result:
    """Train while strangers are connected to the listening worker."""
    rng, sockets = seeded(seed, "network", name), []

    @contextlib.contextmanager
    def connect(address: tuple[str, int]) -> Iterator[Any]:
        sockets.extend(STRANGERS[stranger](address, rng))
        yield type("Address", (), {"address": address})

    return _judge(training, _train(training.job, connect), f"{len(sockets)} connections")


def _judge(training: Training, results: list[tuple[str, str]], attack: str) -> Result:
    kinds = [kind for kind, _ in results]
    detail = f"{attack}: " + "; ".join(f"{kind} {_short(kind, text)}" for kind, text in results)
    if any(kind == "done" and text != training.model for kind, text in results):
        return lost(f"a worker returned another model; {detail}")
    if wrong := set(kinds) - {"done", "PeerLost"}:
        return crashed(f"{', '.join(sorted(wrong))}; {detail}")
    if kinds != ["done", "done"]:
        again = _train(training.job)
        if any(result != ("done", training.model) for result in again):
            return lost(f"the next attempt failed; {detail}")
    return survived(detail)


def _short(kind: str, text: str) -> str:
    return "" if kind == "done" else text[:100]


def _train(
    job: Job,
    attacked: Callable[[tuple[str, int]], contextlib.AbstractContextManager[Any]] | None = None,
) -> list[tuple[str, str]]:
    """Train on two processes; return `done` and the model, or the error, of each.

    attacked: returns the attack on the first worker's address; the second worker connects to the
    address of the attack.
    """
    context = get_context("fork")
    pipes = [context.Pipe() for _ in range(2)]
    workers = [context.Process(target=_work, args=(job, n, pipes[n][1])) for n in range(2)]
    for worker in workers:
        worker.start()
    for _, end in pipes:
        end.close()
    addresses = [pipe.recv() for pipe, _ in pipes]
    pipes[0][0].send(addresses)  # from now on the first worker accepts connections
    with attacked(addresses[0]) if attacked else contextlib.nullcontext() as attack:
        pipes[1][0].send([attack.address if attacked else addresses[0], addresses[1]])
        results = [_result(pipe, worker) for (pipe, _), worker in zip(pipes, workers, strict=True)]
    for worker in workers:
        worker.kill()
        worker.join()
    return results


def _result(pipe: Any, worker: Any) -> tuple[str, str]:
    try:
        result: tuple[str, str] = pipe.recv()
        return result
    except EOFError:
        worker.join()
        return "process ended", f"exit code {worker.exitcode}"


def _work(job: Job, rank: int, pipe: Any) -> None:
    listener = Listener("127.0.0.1")
    pipe.send(listener.address)
    addresses = pipe.recv()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))
    try:
        with listener.rendezvous(addresses, rank, token=job.token, attempt=job.attempt,
                                 timeout=job.worker_timeout) as communicator:  # fmt: skip
            state, _, _ = train_worker(communicator, job)
            communicator.allgather(b"done")
            pipe.send(("done", make_ranker(state, _PLAN.early_stopping_metric).model_text()))
            time.sleep(_LIMIT_S)  # until the other worker has ended too
    except Exception as error:
        pipe.send((type(error).__name__, str(error)))


KIND = Kind("network", prepare, faults)
