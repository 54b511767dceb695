"""What happens when a worker is lost: further attempts, each from the last checkpoint.

A failed attempt costs the iterations since the checkpoint. The model is the same as without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ulr.engine.interface import RanksFailed
from ulr.errors import TemporaryFailure
from ulr.training.distributed.task import Job

MAX_BACKOFF_S = 10.0
Result = TypeVar("Result")


def run_with_retries(
    job: Job, run: Callable[[Job], Result], max_retries: int
) -> tuple[Result, list[str]]:
    """Return the result of the first attempt that succeeds, and the reasons of those that failed.

    User errors and cancelled jobs are raised, not retried. Every attempt has its number in `job`,
    which changes the handshake's key: a leftover worker of an earlier attempt cannot join.
    """
    failures: list[str] = []
    while True:
        try:
            return run(replace(job, attempt=len(failures) + 1)), failures
        except RanksFailed as error:
            failures.append(str(error))
            if len(failures) > max_retries:
                raise TemporaryFailure(
                    f"training failed {len(failures)} times, the last time: {failures[-1]}; "
                    "run again to resume from the last checkpoint, or raise train.max_retries"
                ) from error
        time.sleep(min(float(len(failures)), MAX_BACKOFF_S))
