"""Several things at once on threads of the driver, where the cluster has room for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
_AGAIN_S = 1.0


def run_concurrently(
    jobs: Sequence[Callable[[], T]], limit: int, cancel: Callable[[], None]
) -> list[T]:
    """The jobs' results in their order, at most `limit` of them running at a time.

    One that fails does not stop the others: what they finish need not be done again. Then the
    first failure is raised. An interruption starts nothing more and calls `cancel` until those
    that run have ended.
    """
    if limit <= 1 or len(jobs) <= 1:
        return [job() for job in jobs]
    with ThreadPoolExecutor(min(limit, len(jobs))) as pool:
        futures = [pool.submit(job) for job in jobs]
        try:
            wait(futures)
        except BaseException:
            for future in futures:
                future.cancel()
            while wait(futures, _AGAIN_S).not_done:
                cancel()
            raise
    return [future.result() for future in futures]
