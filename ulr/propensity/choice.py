"""The estimator `auto`: swaps where they suffice, rank changes where they do not.

Each position has one source (docs/methods.md section 3.13). The choice is that of all traffic, and
the finding `estimator` says what was chosen, why, what swaps everywhere would take, and which
setting decides otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ulr.config.settings import Propensities
from ulr.errors import UserError
from ulr.propensity.curve import ThetaCurve
from ulr.propensity.curve_checks import position_ranges
from ulr.propensity.extension import EXTENDED
from ulr.propensity.findings import NOTE, Finding
from ulr.propensity.harvest_checks import harvest_findings, swap_findings
from ulr.propensity.swap_counts import SwapCounts

AUTO = "auto"
SWAPS, HARVEST, FEATURES = "combined", "all_pairs", "regression_em"
CHECK = "estimator"
MIN_FRACTION = 0.05  # of the clicks: where fewer lack swaps, their positions are imputed


@dataclass(frozen=True)
class Choice:
    """An estimator for all curves of a window. reached: positions that swaps reach, from 1."""

    estimator: str
    reached: list[int]
    finding: Finding


@dataclass(frozen=True)
class SwapEvidence:
    """The swap estimate of all traffic, and where it lacks clicks.

    lacking: positions without an estimate, from 1; fraction: of the clicks on pages as ranked;
    sessions: of experiments that would give them one, NaN if the log cannot tell.
    """

    curve: ThetaCurve
    counts: SwapCounts
    min_clicks: int

    @property
    def reached(self) -> list[int]:
        return _positions(~np.isnan(self.curve.theta))

    @property
    def lacking(self) -> list[int]:
        return _positions(np.isnan(self.curve.theta))

    @property
    def fraction(self) -> float:
        clicks = self.counts.unswapped().clicks
        return float(clicks[np.array(self.lacking, int) - 1].sum() / max(clicks.sum(), 1))

    @property
    def suffices(self) -> bool:
        """Whether rank changes are not needed."""
        return not self.lacking or (len(self.reached) > 1 and self.fraction < MIN_FRACTION)

    @property
    def sessions(self) -> float:
        known = [n for n in map(self._sessions, self.lacking) if not np.isnan(n)]
        return sum(known) if known else np.nan

    def _sessions(self, k: int) -> float:
        """Return how many more sessions of a swap bucket give position k enough clicks."""
        clicks = int(self.curve.support[k - 1])
        pages = sum(b.sessions for b in self.counts.buckets.values() if k in b.bucket.positions)
        if not clicks:  # a bucket has at least the clicks of pages as ranked
            arm = self.counts.unswapped()
            clicks, pages = int(arm.clicks[k - 1]), arm.sessions
            return self.min_clicks * pages / clicks if clicks else np.nan
        return max(self.min_clicks / clicks - 1, 0.0) * pages

    def reason(self) -> str:
        """Return why the positions lack an estimate, by the first of them."""
        if not self.counts.randomised:
            return "no page took part in a swap experiment"
        first = self.lacking[0]
        clicks, needed = int(self.curve.support[first - 1]), self.min_clicks
        if clicks >= needed:
            return f"position {first}: {self.curve.note[first - 1]}"
        return f"position {first} has {clicks:,} clicks in swap buckets, {needed:,} are needed"

    def cost(self) -> str:
        """Return the size of the experiment that the positions lack."""
        if np.isnan(self.sessions):
            return "sessions of swap experiments"
        digits = -max(int(np.log10(max(self.sessions, 1))) - 1, 0)
        return f"about {round(self.sessions, digits):,.0f} more sessions of swap experiments"


def choose_swaps(evidence: SwapEvidence) -> Choice:
    """Return the choice where swaps suffice."""
    text = f"theta of positions {position_ranges(evidence.reached)} from swaps"
    if evidence.lacking:
        text += (
            f"; {position_ranges(evidence.lacking)} have {evidence.fraction:.1%} of the clicks and "
            f"no estimate: {evidence.reason()}"
        )
    return _choice(SWAPS, evidence, text, verdict="ok")


def choose_harvest(
    evidence: SwapEvidence, table: pa.Table, harvest: ThetaCurve, settings: Propensities
) -> Choice | None:
    """Return the choice between swaps and rank changes; None if neither gives an estimate.

    table: `harvest_schema`; harvest: its curve.
    """
    found = _positions(~np.isnan(harvest.theta))
    more = [k for k in evidence.lacking if k in found]
    if len(evidence.reached) == 1:
        if not more:
            return None
        text = (
            f"theta of positions {position_ranges(more)} from rank changes: {evidence.reason()}; "
            f"{evidence.cost()} (`ulr plan-swaps`) would give theta without the assumption that "
            "rankings change regardless of relevance; propensities.estimator=regression_em uses "
            "features instead"
        )
        return _choice(HARVEST, evidence, text)
    text = f"theta of positions {position_ranges(evidence.reached)} from swaps, "
    cost = f"{evidence.reason()} ({evidence.cost()}, see `ulr plan-swaps`)"
    against = _objection(evidence, table, harvest, settings)
    if not more or against:
        without = against or "no document changed its rank there often enough"
        text += f"not from rank changes at {position_ranges(evidence.lacking)}, because {without}"
        return _choice(SWAPS, evidence, f"{text}; {cost}")
    text += f"{position_ranges(more)} from rank changes: {cost}"
    return _choice(EXTENDED, evidence, f"{text}; propensities.estimator=combined uses swaps only")


def choose_features(evidence: SwapEvidence, harvest: ThetaCurve) -> Choice:
    """Return the choice of regression-EM, where neither swaps nor rank changes give an estimate."""
    text = (
        "theta from features (regression_em), which assumes that they explain relevance: "
        f"{nothing_known(evidence, harvest)}; {evidence.cost()} (`ulr plan-swaps`) would give "
        "theta without this assumption; propensities.estimator=given takes a known curve"
    )
    return _choice(FEATURES, evidence, text)


def nothing_known(evidence: SwapEvidence, harvest: ThetaCurve) -> str:
    """Return why neither swaps nor rank changes give an estimate."""
    k = next(k for k in evidence.lacking if np.isnan(harvest.theta[k - 1]))
    return f"{evidence.reason()}, and of rank changes position {k} has {harvest.note[k - 1]}"


def not_identified(evidence: SwapEvidence, harvest: ThetaCurve, features: str) -> UserError:
    """Return the error for a log that says nothing about theta. features: why they do not help."""
    return UserError(
        f"theta cannot be estimated from this log: {nothing_known(evidence, harvest)}; run "
        f"{evidence.cost()} (`ulr plan-swaps`), or set propensities.estimator=regression_em "
        f"({features}) or propensities.estimator=given (a known curve)"
    )


def _objection(
    evidence: SwapEvidence, table: pa.Table, harvest: ThetaCurve, settings: Propensities
) -> str:
    """Return the first alarm of the checks of harvesting; "" if there is none."""
    clicks, level = settings.min_clicks, settings.significance
    findings = swap_findings(harvest, evidence.counts, min_clicks=clicks, significance=level)
    findings += harvest_findings(table, harvest, min_clicks=clicks, significance=level)
    alarms = [f for f in findings if f.verdict == NOTE]
    return f"{alarms[0].message} (p = {alarms[0].p_value:.1g})" if alarms else ""


def _choice(estimator: str, evidence: SwapEvidence, text: str, *, verdict: str = NOTE) -> Choice:
    reached = evidence.reached
    return Choice(
        estimator, reached, Finding(CHECK, "theta", float(len(reached)), np.nan, verdict, text)
    )


def _positions(chosen: Sequence[bool] | np.ndarray) -> list[int]:
    return [int(i) + 1 for i in np.flatnonzero(chosen)]
