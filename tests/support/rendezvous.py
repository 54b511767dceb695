"""Workers for tests: connected threads of this process, or connected processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.rendezvous import Address, Listener

TOKEN = "a token"
TIMEOUT_S = 60.0


def connect(
    listener: Listener, addresses: list[Address], rank: int, timeout: float = TIMEOUT_S
) -> Communicator:
    return listener.rendezvous(addresses, rank, token=TOKEN, attempt=1, timeout=timeout)


def on_threads(
    size: int,
    work: Callable[[Communicator], Any],
    host: str = "127.0.0.1",
    timeout: float = TIMEOUT_S,
) -> list[Any]:
    """Run `work` on every rank; return its results, or raise the first error."""
    listeners = [Listener(host) for _ in range(size)]
    addresses = [listener.address for listener in listeners]

    def run(rank: int) -> Any:
        with connect(listeners[rank], addresses, rank, timeout) as communicator:
            return work(communicator)

    with ThreadPoolExecutor(size) as pool:
        return [f.result() for f in [pool.submit(run, rank) for rank in range(size)]]


class OnProcesses:
    """`work` on connected processes, which a test may kill or stop."""

    def __init__(self, size: int, work: Callable[[Communicator], Any], *, timeout: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.results: Any = context.Queue()
        pipes = [context.Pipe() for _ in range(size)]
        self.processes = [
            context.Process(
                target=_run, args=(rank, pipes[rank][1], self.results, work, timeout), daemon=True
            )
            for rank in range(size)
        ]
        for process in self.processes:
            process.start()
        addresses = [pipe.recv() for pipe, _ in pipes]
        for pipe, _ in pipes:
            pipe.send(addresses)
        for pipe, _ in pipes:
            assert pipe.recv() == "connected"

    def result(self) -> tuple[int, str, Any]:
        """Return rank, `done` or the class of an error, and result or message of the next one."""
        return self.results.get(timeout=10 * TIMEOUT_S)

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()


def _run(
    rank: int, pipe: Any, results: Any, work: Callable[[Communicator], Any], timeout: float
) -> None:
    listener = Listener("127.0.0.1")
    pipe.send(listener.address)
    communicator = connect(listener, pipe.recv(), rank, timeout)
    pipe.send("connected")
    try:
        results.put((rank, "done", work(communicator)))
    except Exception as error:
        results.put((rank, type(error).__name__, str(error)))
        communicator.close(str(error))
