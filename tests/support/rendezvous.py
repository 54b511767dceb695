"""Workers for tests: a mesh of threads in this process, or of real processes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.rendezvous import Listener

TOKEN = "a token"


def meet(
    door: Listener, addresses: list, rank: int, timeout: float = 30.0, attempt: int = 1
) -> Communicator:
    return door.meet(addresses, rank, token=TOKEN, attempt=attempt, timeout=timeout)


def on_threads(
    size: int, work: Callable[[Communicator], Any], host: str = "127.0.0.1", timeout: float = 30.0
) -> list[Any]:
    """`work(mesh)` on every worker; what each returned, or the first error."""
    doors = [Listener(host) for _ in range(size)]
    addresses = [door.address for door in doors]

    def one(rank: int) -> Any:
        mesh = meet(doors[rank], addresses, rank, timeout)
        try:
            return work(mesh)
        except BaseException as why:
            mesh.close(f"{type(why).__name__}: {why}")
            raise
        finally:
            mesh.close()

    with ThreadPoolExecutor(size) as pool:
        return [f.result() for f in [pool.submit(one, rank) for rank in range(size)]]


class OnProcesses:
    """The same on processes; `pids` may be killed or stopped meanwhile."""

    def __init__(self, size: int, work: Callable[..., Any], *args: Any, timeout: float) -> None:
        context = multiprocessing.get_context("spawn")
        self.results: Any = context.Queue()
        pipes = [context.Pipe() for _ in range(size)]
        self.processes = [
            context.Process(
                target=_one,
                args=(rank, pipes[rank][1], self.results, work, *args),
                kwargs={"timeout": timeout},
                daemon=True,
            )
            for rank in range(size)
        ]  # fmt: skip
        for process in self.processes:
            process.start()
        addresses = [pipe[0].recv() for pipe in pipes]
        for pipe in pipes:
            pipe[0].send(addresses)

    def result(self, timeout: float = 60.0) -> tuple[int, str, Any]:
        """Rank, `done` or an error's name, and what came of it: whoever is next."""
        return self.results.get(timeout=timeout)

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()


def _one(rank: int, pipe: Any, results: Any, work: Callable, *args: Any, timeout: float) -> None:
    door = Listener("127.0.0.1")
    pipe.send(door.address)
    mesh = meet(door, pipe.recv(), rank, timeout)
    try:
        results.put((rank, "done", work(mesh, *args)))
    except Exception as why:
        results.put((rank, type(why).__name__, str(why)))
        mesh.close(str(why))
