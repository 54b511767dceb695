"""Ranks as processes of this machine: several workers of a training, or several trainings.

A process of its own for each also keeps LightGBM's number of threads, which is one global of a
process, apart from that of other trainings.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from ulr.engine.exit_codes import describe_signal
from ulr.engine.failures import CANCELLED, summarize, user_error_in
from ulr.engine.interface import Rank, RanksFailed
from ulr.engine.local.pool import start_worker
from ulr.engine.local.server import launching, process_context
from ulr.errors import TemporaryFailure

HOST = "127.0.0.1"
_HEARTBEAT_S = 1.0
_GRACE_S = 2.0  # for the errors of other ranks, one of which is the cause
_ALIVE, _TEXT, _RESULT, _ERROR = "alive", "text", "result", "error"


class LocalRank:
    """A rank in its process."""

    host = HOST

    def __init__(self, number: int, size: int, pipe: Connection, lock: threading.Lock) -> None:
        self.number, self.size = number, size
        self._pipe, self._lock = pipe, lock

    def gather(self, text: str) -> list[str]:
        """Return the texts of all ranks, in their order."""
        with self._lock:
            self._pipe.send((_TEXT, text))
        texts: list[str] = self._pipe.recv()
        return texts


class _Process(NamedTuple):
    pipe: Connection
    process: Any


class LocalRanks:
    """Runs ranks; `kill` ends all that run, also those of other threads."""

    def __init__(self) -> None:
        self._running: set[Any] = set()
        self._killed = False

    def run(
        self, count: int, function: Callable[[Rank], bytes], *, threads: int, timeout: float
    ) -> list[bytes]:
        """Return the results of all ranks. threads: of Arrow and kernels in each.

        Raises TemporaryFailure after `kill`, so that they are not started again.
        """
        self._killed = self._killed and bool(self._running)
        started = [self._start(number, count, function, threads) for number in range(count)]
        try:
            return _Conversation(started, timeout).results()
        except RanksFailed:
            if self._killed:
                raise TemporaryFailure(CANCELLED) from None
            raise
        finally:
            for pipe, process in started:
                pipe.close()
                process.kill()
                process.join()
                self._running.discard(process)

    def kill(self) -> None:
        """End all ranks."""
        self._killed = True
        for process in list(self._running):
            process.kill()

    def _start(
        self, number: int, count: int, function: Callable[[Rank], bytes], threads: int
    ) -> _Process:
        context = process_context()
        own, other = context.Pipe()
        run = partial(_run_rank, other, number, count, function)
        arguments = dict(os.environ), threads
        process = context.Process(target=run, args=arguments, daemon=True)
        with launching():
            process.start()
        other.close()
        self._running.add(process)
        return _Process(own, process)


class _Conversation:
    """What the ranks have sent so far."""

    def __init__(self, ranks: list[_Process], timeout: float) -> None:
        self._ranks, self._timeout = ranks, timeout
        self._number = {rank.pipe: number for number, rank in enumerate(ranks)}
        self._last = [time.monotonic()] * len(ranks)
        self._texts: dict[int, str] = {}
        self._results: dict[int, bytes] = {}
        self._errors: dict[int, str] = {}

    def results(self) -> list[bytes]:
        """Return the results in order, or raise the cause of a failure."""
        deadline = float("inf")
        while len(self._results) < len(self._ranks) and time.monotonic() < deadline:
            open_pipes = [p for p, n in self._number.items() if not self._ended(n)]
            if not open_pipes:
                break
            for pipe in wait(open_pipes, _HEARTBEAT_S):
                self._receive(self._number[pipe])  # type: ignore[index]
            self._find_stopped()
            if self._errors:
                deadline = min(deadline, time.monotonic() + _GRACE_S)
        if self._errors:
            text = "\n".join(self._errors[number] for number in sorted(self._errors))
            raise user_error_in(text) or RanksFailed(summarize(text))
        return [self._results[number] for number in range(len(self._ranks))]

    def _ended(self, number: int) -> bool:
        return number in self._results or number in self._errors

    def _receive(self, number: int) -> None:
        rank = self._ranks[number]
        try:
            kind, content = rank.pipe.recv()
        except (EOFError, OSError):
            rank.process.join(_HEARTBEAT_S)
            self._errors[number] = f"WorkerLost: worker {number} {_end_of(rank.process)}"
            return
        self._last[number] = time.monotonic()
        if kind == _RESULT:
            self._results[number] = content
        elif kind == _ERROR:
            self._errors[number] = content
        elif kind == _TEXT:
            self._texts[number] = content
            if len(self._texts) == len(self._ranks):
                texts = [self._texts[n] for n in range(len(self._ranks))]
                self._texts = {}
                for own in self._ranks:
                    with contextlib.suppress(OSError):  # it has ended, which is noticed above
                        own.pipe.send(texts)

    def _find_stopped(self) -> None:
        now = time.monotonic()
        for number, rank in enumerate(self._ranks):
            if not self._ended(number) and now - self._last[number] > self._timeout:
                rank.process.kill()
                self._errors[number] = (
                    f"WorkerLost: worker {number} showed no sign of life for {self._timeout:g} s"
                )


def greeting(rank: Rank) -> bytes:
    """Return the version of Python of a rank; a check that processes can be started."""
    return sys.version.split()[0].encode()


def _end_of(process: Any) -> str:
    code = process.exitcode
    if code is None:
        return "closed its connection"
    signal = describe_signal(code)
    return f"was ended by {signal}" if signal else f"ended with exit code {code}"


def _run_rank(
    pipe: Connection,
    number: int,
    count: int,
    function: Callable[[Rank], bytes],
    *start: Any,
) -> None:
    """Run one rank in its process. start: arguments of `start_worker`."""
    start_worker(*start)
    lock = threading.Lock()

    def send(kind: str, content: Any) -> None:
        with lock:
            pipe.send((kind, content))

    def send_heartbeats() -> None:
        with contextlib.suppress(OSError, ValueError):
            while True:
                send(_ALIVE, None)
                time.sleep(_HEARTBEAT_S)

    threading.Thread(target=send_heartbeats, daemon=True).start()
    try:
        send(_RESULT, function(LocalRank(number, count, pipe, lock)))
    except Exception as error:
        traceback.print_exc()
        kind = type(error)
        send(_ERROR, f"{kind.__module__}.{kind.__qualname__}: {error}")
    sys.stdout.flush()
    sys.stderr.flush()
