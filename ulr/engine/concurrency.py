"""Several jobs at a time, each on a thread of the driver."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")
_CANCEL_EVERY_S = 1.0


def run_concurrently(
    jobs: Sequence[Callable[[], T]], limit: int, cancel: Callable[[], None]
) -> list[T]:
    """Return the results of the jobs in their order; at most `limit` run at a time.

    A job that fails does not stop the others, whose results are published and need no second run.
    The first failure is raised at the end. On an interrupt no further job starts, and `cancel` is
    called until the running ones have ended.
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
            while wait(futures, _CANCEL_EVERY_S).not_done:
                cancel()
            raise
    return [future.result() for future in futures]
