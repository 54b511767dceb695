from __future__ import annotations

import pytest

from ulr.engine.interface import RanksFailed
from ulr.errors import TemporaryFailure, UserError
from ulr.training.distributed import recovery
from ulr.training.distributed.pair_files import PairFiles
from ulr.training.distributed.recovery import run_with_retries
from ulr.training.distributed.task import Job
from ulr.training.plan import TrainPlan

PLAN = TrainPlan("joint", 1, {})
JOB = Job(
    source=PairFiles("", []), plan=PLAN, learner=PLAN.learner(), prepared=None,
    checkpoints=None, token="token", worker_timeout=1.0,
)  # fmt: skip


@pytest.fixture(autouse=True)
def no_backoff(monkeypatch):
    monkeypatch.setattr(recovery, "MAX_BACKOFF_S", 0.0)


def failing(*errors: str | Exception):
    """Return a run that fails once with each error, and the attempts that it was given."""
    attempts = []

    def run(job: Job) -> str:
        attempts.append(job.attempt)
        if len(attempts) <= len(errors):
            error = errors[len(attempts) - 1]
            raise RanksFailed(error) if isinstance(error, str) else error
        return "model"

    return run, attempts


def test_failed_attempts_are_repeated_and_their_reasons_kept():
    run, attempts = failing("PeerLost: worker 1 disconnected", "ValueError: bad")
    result, failures = run_with_retries(JOB, run, max_retries=2)
    assert result == "model"
    assert attempts == [1, 2, 3]
    assert failures == ["PeerLost: worker 1 disconnected", "ValueError: bad"]


def test_too_many_failures_end_with_the_last_reason():
    run, attempts = failing("ValueError: one", "ValueError: two")
    with pytest.raises(TemporaryFailure, match=r"failed 2 times.*: ValueError: two; run"):
        run_with_retries(JOB, run, max_retries=1)
    assert attempts == [1, 2]


@pytest.mark.parametrize("kind", [UserError, TemporaryFailure])
def test_user_errors_and_cancelled_jobs_are_not_repeated(kind):
    run, attempts = failing(kind("rows differ"))
    with pytest.raises(kind, match=r"^rows differ$"):
        run_with_retries(JOB, run, max_retries=5)
    assert attempts == [1]
