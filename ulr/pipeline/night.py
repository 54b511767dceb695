"""A night: stages one after the other, each timed, and a summary whatever happens.

Every stage publishes whole or not at all and skips what has not changed, so a night that was
killed is finished by starting it again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ulr.errors import UserError
from ulr.redact import redact_text

FAILURE = 1  # exit code of what is nobody's mistake


@dataclass(frozen=True)
class Done:
    """What a stage has to say; skipped: nothing had changed. details: the same for programs."""

    message: str
    skipped: bool = False
    outcome: str | None = None
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """A stage by name, and how it is run."""

    name: str
    run: Callable[[], Done]


@dataclass
class StageRecord:
    """status: done | skipped | failed | not run."""

    stage: str
    status: str = "not run"
    seconds: float = 0.0
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)


@dataclass
class Summary:
    """What became of a night; `error` is what ended it."""

    date: str
    stages: list[StageRecord]
    outcome: str = "failed"
    exit_code: int = 0
    error: Exception | None = field(default=None, repr=False)

    @property
    def seconds(self) -> float:
        """All stages together."""
        return sum(record.seconds for record in self.stages)

    def details(self, stage: str) -> dict[str, Any]:
        """What a stage left for programs; nothing where it did not run."""
        return next((r.details for r in self.stages if r.stage == stage), {})

    def to_json(self) -> dict[str, Any]:
        """For schedulers."""
        stages = [asdict(record) for record in self.stages]
        return {"date": self.date, "outcome": self.outcome, "exit_code": self.exit_code,
                "stages": stages}  # fmt: skip


def run_night(date: str, steps: Sequence[Step], *, from_stage: str | None = None) -> Summary:
    """Run the steps from `from_stage` on; the first that fails ends the night."""
    names = [step.name for step in steps]
    if from_stage is not None and from_stage not in names:
        raise UserError(f"--from-stage {from_stage}: expected one of {', '.join(names)}")
    first = names.index(from_stage) if from_stage else 0
    summary = Summary(date, [StageRecord(name) for name in names])
    for step, record in list(zip(steps, summary.stages, strict=True))[first:]:
        started = time.monotonic()
        try:
            done = step.run()
        except Exception as error:
            record.status, record.message = "failed", _first_line(error)
            summary.error = error
            summary.exit_code = getattr(error, "exit_code", FAILURE)
            return summary
        finally:
            record.seconds = round(time.monotonic() - started, 3)
        record.status, record.message = "skipped" if done.skipped else "done", done.message
        record.details = done.details
        summary.outcome = done.outcome or summary.outcome
    return summary


def _first_line(error: Exception) -> str:
    """What it says, or what it is where it says nothing, as MemoryError does; no passwords."""
    said = str(error).strip() or type(error).__name__
    return redact_text(said.splitlines()[0])[:300]
