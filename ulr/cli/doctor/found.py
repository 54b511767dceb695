"""What a check found, and the checks one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ulr.redact import redact_text

OK, WARNING, ERROR = "ok", "warning", "error"


@dataclass(frozen=True)
class Found:
    """verdict: ok, warning or error; mend: a command for this very case."""

    verdict: str
    message: str
    mend: str = ""


@dataclass(frozen=True)
class Check:
    """A check by name; mend: the command that helps where the check names no better one."""

    name: str
    run: Callable[[], Found]
    mend: str


@dataclass(frozen=True)
class Checked:
    """A line of the result."""

    check: str
    verdict: str
    message: str
    mend: str


def examine(check: Check) -> Checked:
    """Run one; whatever it raises is an error that it found. Its words are safe to pass on."""
    try:
        found = check.run()
    except Exception as why:
        first = str(why).strip().partition("\n")[0][:300]
        found = Found(ERROR, first or type(why).__name__)
    mend = "" if found.verdict == OK else found.mend or check.mend
    return Checked(check.name, found.verdict, redact_text(found.message), mend)


def failing(results: Sequence[Checked]) -> list[str]:
    """Names of the checks that found an error."""
    return [result.check for result in results if result.verdict == ERROR]
