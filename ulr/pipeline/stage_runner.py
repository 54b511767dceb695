"""Run the stages of a night in order and record each in a summary.

Each stage publishes atomically and skips unchanged inputs, so a killed night is completed by
running it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ulr.engine.failures import explain, summarize
from ulr.errors import UserError
from ulr.redact import redact_text

FAILURE = 1  # exit code of an unexpected error


@dataclass(frozen=True)
class StageResult:
    """Result of one stage: a message for people, details for programs."""

    message: str
    skipped: bool = False
    outcome: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass
class StageRecord:
    """One stage in the summary. status: done | skipped | failed | not run."""

    stage: str
    status: str = "not run"
    seconds: float = 0.0
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)


@dataclass
class Summary:
    """Outcome of a night. error: the exception that ended it, if any."""

    date: str
    stages: list[StageRecord]
    outcome: str = "failed"
    exit_code: int = 0
    error: Exception | None = field(default=None, repr=False)

    @property
    def seconds(self) -> float:
        """Duration of all stages."""
        return sum(record.seconds for record in self.stages)

    def details(self, stage: str) -> dict[str, Any]:
        """Return the details of a stage, empty if it did not run."""
        return next((r.details for r in self.stages if r.stage == stage), {})

    def fail(self, error: Exception) -> None:
        """Record the error that ended the night, unless one was recorded before."""
        if self.error is None:
            self.error, self.exit_code = error, getattr(error, "exit_code", FAILURE)

    def to_json(self) -> dict[str, Any]:
        """Return the summary for schedulers."""
        stages = [asdict(record) for record in self.stages]
        return {"date": self.date, "outcome": self.outcome, "exit_code": self.exit_code,
                "stages": stages}  # fmt: skip


def run_stages(
    date: str,
    stages: Sequence[tuple[str, Callable[[], StageResult]]],
    *,
    from_stage: str | None = None,
) -> Summary:
    """Run named stages in order from `from_stage` on; the first failure ends the night."""
    names = [name for name, _ in stages]
    if from_stage is not None and from_stage not in names:
        raise UserError(f"--from-stage {from_stage}: expected one of {', '.join(names)}")
    first = names.index(from_stage) if from_stage else 0
    summary = Summary(date, [StageRecord(name) for name in names])
    for (_, run), record in list(zip(stages, summary.stages, strict=True))[first:]:
        started = time.monotonic()
        try:
            result = run()
        except Exception as error:
            failure = explain(error) or error
            record.status, record.message = "failed", _first_line(failure)
            summary.fail(failure)
            return summary
        finally:
            record.seconds = round(time.monotonic() - started, 3)
        record.status, record.message = "skipped" if result.skipped else "done", result.message
        record.details = result.details
        summary.outcome = result.outcome or summary.outcome
    return summary


def _first_line(error: Exception) -> str:
    """Return the error's first line without secrets, or its class if it has no text."""
    text = str(error).strip() or type(error).__name__
    line = text.splitlines()[0] if isinstance(error, UserError) else summarize(text)
    return redact_text(line)[:300]
