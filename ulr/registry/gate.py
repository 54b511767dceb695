"""The promotion gate: checks of a challenger and the verdict (docs/methods.md section 7.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ulr.evaluation.metrics import is_lower_better
from ulr.evaluation.totals import Estimate

# Verdicts of diagnostics that block a promotion, by promote.diagnostics.
BLOCKING = {
    "note": ("note", "warning", "refused"),
    "warning": ("warning", "refused"),
    "refused": ("refused",),
    "ignore": (),
}


class Check(NamedTuple):
    """The result of one condition for promotion. message: the text shown to users."""

    passed: bool
    message: str


@dataclass(frozen=True)
class Verdict:
    """The gate's decision. reasons: messages of all checks; against: those of failed checks."""

    passed: bool
    reasons: list[str]
    against: list[str]


def decide(checks: Sequence[Check], *, force: str | None = None) -> Verdict:
    """Return a verdict that passes if all checks pass, or if `force` (the reason) is set."""
    reasons = [check.message for check in checks]
    against = [check.message for check in checks if not check.passed]
    if force:
        return Verdict(True, [f"forced: {force}", *reasons], against)
    return Verdict(not against, reasons, against)


def check_lead(metric: str, lead: Estimate) -> Check:
    """Return a check that fails if the challenger is significantly worse than the champion.

    lead: challenger - champion; it is significant if its 95% interval excludes 0.
    """
    best_bound = -lead.lower if is_lower_better(metric) else lead.upper
    passed = best_bound >= 0
    return Check(
        passed,
        f"{metric} is {'not worse' if passed else 'worse'} than the champion's: {lead.value:+.5f} "
        f"[{lead.lower:+.5f}, {lead.upper:+.5f}], p = {lead.p_value:.2g}, {lead.queries:,} queries",
    )


def check_sample_size(size: float | None, minimum: float) -> Check:
    """Return a check that passes if the effective sample size is at least `minimum`.

    size: of the challenger's pair weights, None if unknown.
    """
    if size is None:
        return Check(minimum == 0, "the effective sample size of the pair weights is unknown")
    passed = size >= minimum
    return Check(
        passed,
        f"effective sample size {size:,.0f} is {'at least' if passed else 'below'} "
        f"promote.min_effective_sample_size = {minimum:,.0f}",
    )


def check_diagnostics(findings: Iterable[Mapping[str, Any]], setting: str) -> list[Check]:
    """Return a failed check for every finding that promote.diagnostics (`setting`) blocks.

    findings: rows of the table `diagnostics`.
    """
    return [
        Check(False, f"diagnostics, {finding['verdict']}: {finding['message']}")
        for finding in findings
        if finding["verdict"] in BLOCKING[setting]
    ]
