"""Whether a challenger may become champion, and every reason for the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ulr.evaluation.metrics import is_lower_better
from ulr.evaluation.totals import Estimate

LEVELS = {"warning": ("warning", "refused"), "refused": ("refused",), "ignore": ()}


@dataclass(frozen=True)
class Verdict:
    """passed, and what was found on each point; `against` holds what speaks against it."""

    passed: bool
    reasons: list[str]
    against: list[str]


def decide(
    *,
    metric: str,
    lead: Estimate | None,
    sample_size: float | None,
    min_sample_size: float,
    findings: Sequence[Mapping[str, Any]],
    block: str,
    apart: str = "",
) -> Verdict:
    """lead: challenger - champion; None where there is no champion yet, or where the two are too
    far `apart` to be compared: how they are.

    Not worse beyond its interval: the 95% interval of the lead reaches 0 or better. A lead that
    could not be measured speaks against, for silence is not agreement.
    """
    alone = (not apart, apart or "there is no champion yet")
    points = [
        _compared(metric, lead) if lead else alone,
        _healthy(sample_size, min_sample_size),
        *(_found(f) for f in findings if f["verdict"] in LEVELS[block]),
    ]
    against = [words for good, words in points if not good]
    return Verdict(not against, [words for _, words in points], against)


def _compared(metric: str, lead: Estimate) -> tuple[bool, str]:
    lower_is_better = is_lower_better(metric)
    best = -lead.lower if lower_is_better else lead.upper
    good = best >= 0
    judged = "not worse" if good else "worse"
    return good, (
        f"{metric} is {judged} than the champion's: {lead.value:+.5f} "
        f"[{lead.lower:+.5f}, {lead.upper:+.5f}], p = {lead.p_value:.2g}, {lead.queries:,} queries"
    )


def _healthy(size: float | None, floor: float) -> tuple[bool, str]:
    if size is None:
        return floor == 0, "the weight health of its pairs is not known"
    good = size >= floor
    return good, (
        f"effective sample size {size:,.0f} is {'at least' if good else 'below'} "
        f"promote.min_effective_sample_size = {floor:,.0f}"
    )


def _found(finding: Mapping[str, Any]) -> tuple[bool, str]:
    return False, f"diagnostics, {finding['verdict']}: {finding['message']}"
