"""A check, its finding, and how a check is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ulr.redact import redact_text

OK, WARNING, ERROR = "ok", "warning", "error"


@dataclass(frozen=True)
class Finding:
    """verdict: ok, warning or error. fix: a command for this case."""

    verdict: str
    message: str
    fix: str = ""


@dataclass(frozen=True)
class Check:
    """fix: the command that usually helps, if the finding has none."""

    name: str
    run: Callable[[], Finding]
    fix: str


@dataclass(frozen=True)
class Result:
    """One row of the output."""

    check: str
    verdict: str
    message: str
    fix: str


def run_check(check: Check) -> Result:
    """Run a check; an exception counts as an error. The message holds no secrets."""
    try:
        finding = check.run()
    except Exception as error:
        first = str(error).strip().partition("\n")[0][:300]
        finding = Finding(ERROR, first or type(error).__name__)
    fix = "" if finding.verdict == OK else finding.fix or check.fix
    return Result(check.name, finding.verdict, redact_text(finding.message), fix)


def failed_checks(results: Sequence[Result]) -> list[str]:
    """Return the names of the checks with an error."""
    return [result.check for result in results if result.verdict == ERROR]
