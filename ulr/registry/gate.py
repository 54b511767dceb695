"""The promotion gate: checks of a challenger and the verdict (docs/methods.md section 7.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ulr.evaluation.metrics import is_lower_better
from ulr.evaluation.totals import Estimate

# Verdicts of diagnostics that block a promotion, by promote.diagnostics.
BLOCKING = {"warning": ("warning", "refused"), "refused": ("refused",), "ignore": ()}


class Check(NamedTuple):
    """One condition for promotion. message: the finding, as users read it."""

    passed: bool
    message: str


@dataclass(frozen=True)
class Verdict:
    """The gate's decision with the message of every check; against: those of failed checks."""

    passed: bool
    reasons: list[str]
    against: list[str]


def decide(checks: Sequence[Check], *, force: str | None = None) -> Verdict:
    """Pass if every check passes, or if there is a reason to force it."""
    reasons = [check.message for check in checks]
    against = [check.message for check in checks if not check.passed]
    if force:
        return Verdict(True, [f"forced: {force}", *reasons], against)
    return Verdict(not against, reasons, against)


def check_lead(metric: str, lead: Estimate) -> Check:
    """Pass unless the whole 95% interval of challenger - champion is worse than 0."""
    best = -lead.lower if is_lower_better(metric) else lead.upper
    passed = best >= 0
    return Check(
        passed,
        f"{metric} is {'not worse' if passed else 'worse'} than the champion's: {lead.value:+.5f} "
        f"[{lead.lower:+.5f}, {lead.upper:+.5f}], p = {lead.p_value:.2g}, {lead.queries:,} queries",
    )


def check_sample_size(size: float | None, minimum: float) -> Check:
    """Pass if the effective sample size of the pair weights is large enough; None: unknown."""
    if size is None:
        return Check(minimum == 0, "the effective sample size of its pair weights is unknown")
    passed = size >= minimum
    return Check(
        passed,
        f"effective sample size {size:,.0f} is {'at least' if passed else 'below'} "
        f"promote.min_effective_sample_size = {minimum:,.0f}",
    )


def check_diagnostics(findings: Iterable[Mapping[str, Any]], setting: str) -> list[Check]:
    """Fail once for every row of the table `diagnostics` that promote.diagnostics blocks."""
    return [
        Check(False, f"diagnostics, {finding['verdict']}: {finding['message']}")
        for finding in findings
        if finding["verdict"] in BLOCKING[setting]
    ]
