"""The promotion gate: checks of a challenger and the verdict (docs/methods.md section 7.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ulr.registry.noninferiority import Comparison

# Verdicts of diagnostics that block a promotion, by promote.diagnostics.
BLOCKING = {
    "note": ("note", "warning", "refused"),
    "warning": ("warning", "refused"),
    "refused": ("refused",),
    "ignore": (),
}


Undecided = Literal["estimate", "keep", "promote"]


class Check(NamedTuple):
    """The result of one condition for promotion. message: the text shown to users.

    undecided: the data could not tell, so promote.undecided decided.
    """

    passed: bool
    message: str
    undecided: bool = False


@dataclass(frozen=True)
class Verdict:
    """The gate's decision. reasons: messages of all checks; against: those of failed checks.

    undecided: messages of the comparisons that the data could not decide.
    """

    passed: bool
    reasons: list[str]
    against: list[str]
    undecided: list[str] = field(default_factory=list)


def decide(checks: Sequence[Check], *, force: str | None = None) -> Verdict:
    """Return a verdict that passes if all checks pass, or if `force` (the reason) is set."""
    reasons = [check.message for check in checks]
    against = [check.message for check in checks if not check.passed]
    undecided = [check.message for check in checks if check.undecided]
    if force:
        return Verdict(True, [f"forced: {force}", *reasons], against, undecided)
    return Verdict(not against, reasons, against, undecided)


def check_comparison(
    comparison: Comparison, message: str, *, anchor: bool, undecided: Undecided
) -> Check:
    """Return the check of a comparison, by promote.undecided where the data cannot tell.

    message: the comparison in words. anchor: the rival is the champion of promote.anchor_days ago.
    """
    if comparison.state != "undecided":
        return Check(comparison.state == "not worse", message)
    if undecided != "estimate":
        message += f"; promote.undecided = {undecided}"
        return Check(undecided == "promote", message, undecided=True)
    passed = comparison.accepts(anchor=anchor)
    message += f"; the estimate is {'within' if passed else 'outside'} what is accepted"
    return Check(passed, message, undecided=True)


def check_size(name: str, size: float | None, minimum: float) -> Check:
    """Return a check that passes if an effective sample size is at least `minimum`.

    name: `clicks` or `queries`. size: of the challenger's training data, None if unknown.
    """
    if size is None:
        return Check(minimum == 0, f"the effective number of {name} is unknown")
    passed = size >= minimum
    return Check(
        passed,
        f"{size:,.0f} effective {name}, {'at least' if passed else 'below'} "
        f"promote.min_effective_{name} = {minimum:,.0f}",
    )


def check_diagnostics(findings: Iterable[Mapping[str, Any]], setting: str) -> list[Check]:
    """Return a failed check for every finding that promote.diagnostics (`setting`) blocks.

    Imputed positions of all traffic are named too, by a check that passes. findings: rows of the
    table `diagnostics`.
    """
    checks = []
    for finding in findings:
        if finding["verdict"] in BLOCKING[setting]:
            text = f"diagnostics, {finding['verdict']}: {finding['message']}"
            checks.append(Check(False, text))
        elif finding.get("check") == "depth" and finding.get("segment") is None:
            checks.append(Check(True, finding["message"]))
    return checks
