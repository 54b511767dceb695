"""Faults, their results, and the runner that gives each fault its own processes and time limit.

A fault runs in a session of its own, in an empty folder. When it ends, or when its time is over,
every process of the session is killed and every filesystem mounted below the folder is unmounted.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.bench.faults.processes import kill_session, unmount_below


class Verdict(StrEnum):
    """What a fault did to the product."""

    SURVIVED = "survived"  # the result is the one without the fault, or an error that names it
    LOST = "lost"  # published data, or a result reported as written, is missing or different
    HUNG = "hung"  # the time limit passed
    EXECUTED = "executed"  # code from the input ran
    CRASHED = "crashed"  # a process ended by a signal, or with an exit code that misleads
    SKIPPED = "skipped"  # the machine cannot produce this fault


FAILURES = (Verdict.LOST, Verdict.HUNG, Verdict.EXECUTED, Verdict.CRASHED)


@dataclass(frozen=True)
class Result:
    """The verdict on one fault, and a line about what happened."""

    verdict: Verdict
    detail: str = ""


def survived(detail: str = "") -> Result:
    return Result(Verdict.SURVIVED, detail)


def lost(detail: str) -> Result:
    return Result(Verdict.LOST, detail)


def crashed(detail: str) -> Result:
    return Result(Verdict.CRASHED, detail)


@dataclass(frozen=True)
class Fault:
    """One fault. The name is unique within its kind, and with the seed it repeats the fault.

    run: a function that can be pickled, from an empty folder to the result.
    """

    kind: str
    name: str
    run: Callable[[Path], Result]
    limit_s: float = 120.0


@dataclass(frozen=True)
class Outcome:
    """A fault that was run."""

    kind: str
    name: str
    result: Result
    seconds: float


@dataclass(frozen=True)
class Kind:
    """A group of faults that share what is prepared for them.

    prepare: yields what `faults` needs; it takes an empty folder. `faults` takes that, the seed,
    and whether only a few are wanted. unavailable: why this machine cannot run them, or "".
    """

    name: str
    prepare: Callable[[Path], contextlib.AbstractContextManager[Any]]
    faults: Callable[[Any, int, bool], list[Fault]]
    unavailable: Callable[[], str] = str


def seeded(seed: int, kind: str, name: str) -> random.Random:
    """Return the random numbers of one fault, which depend on no other fault."""
    return random.Random(f"{seed}/{kind}/{name}")


@contextlib.contextmanager
def nothing(folder: Path) -> Iterator[None]:
    """Prepare nothing."""
    yield None


def run_kind(
    kind: Kind,
    *,
    seed: int,
    quick: bool,
    only: str = "",
    jobs: int = 2,
    on_outcome: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Run the faults of a kind whose name contains `only`, `jobs` at a time."""
    if reason := kind.unavailable():
        outcome = Outcome(kind.name, "all", Result(Verdict.SKIPPED, reason), 0.0)
        on_outcome(outcome)
        return [outcome]
    with (
        tempfile.TemporaryDirectory(prefix="ulr-faults-", ignore_cleanup_errors=True) as root,
        kind.prepare(_subfolder(Path(root), "prepared")) as prepared,
        ThreadPoolExecutor(jobs) as pool,
    ):
        chosen = [fault for fault in kind.faults(prepared, seed, quick) if only in fault.name]
        _check_names(chosen)

        def run(numbered: tuple[int, Fault]) -> Outcome:
            outcome = run_fault(numbered[1], _subfolder(Path(root), str(numbered[0])))
            on_outcome(outcome)
            return outcome

        try:
            return list(pool.map(run, enumerate(chosen)))
        except BaseException:  # interrupted: end with the faults that are running
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def run_fault(fault: Fault, folder: Path) -> Outcome:
    """Run one fault in its own session; remove its processes, mounts and folder afterwards."""
    started = time.monotonic()
    context = multiprocessing.get_context("forkserver")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run_in_session, args=(fault, folder, sender))
    process.start()
    sender.close()
    assert process.pid is not None
    try:
        result = _received(receiver, process, fault.limit_s)
    finally:
        process.kill()
        kill_session(process.pid)
        process.join()
        unmount_below(folder)
        if "ULR_KEEP_FAULTS" not in os.environ:
            shutil.rmtree(folder, ignore_errors=True)
    return Outcome(fault.kind, fault.name, result, time.monotonic() - started)


def _received(receiver: Any, process: Any, limit_s: float) -> Result:
    if not receiver.poll(limit_s):
        return Result(Verdict.HUNG, f"no result within {limit_s:g} s")
    try:
        result: Result = receiver.recv()
        return result
    except EOFError:
        process.join()
        code = process.exitcode or 0
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return crashed(f"the process ended by {name}")


def _run_in_session(fault: Fault, folder: Path, sender: Any) -> None:
    os.setsid()
    os.chdir(folder)
    temporary = _subfolder(folder, "tmp")
    os.environ |= {"TMPDIR": str(temporary), "SPARK_LOCAL_DIRS": str(temporary)}
    tempfile.tempdir = None
    with (folder / "log.txt").open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        result = fault.run(folder)
    except Exception as error:
        traceback.print_exc()
        result = crashed(f"{type(error).__name__}: {str(error).splitlines()[0:1]}")
    sender.send(result)
    sender.close()
    os._exit(0)  # threads and servers of the fault end with the session


def preload(modules: Sequence[str]) -> None:
    """Import modules once, in the process that all faults are forked from."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(modules))


def _subfolder(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir()
    return path


def _check_names(faults: Iterable[Fault]) -> None:
    names = [fault.name for fault in faults]
    assert len(names) == len(set(names)), "two faults have the same name"
