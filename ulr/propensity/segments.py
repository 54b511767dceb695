"""All estimates of one segment: theta, psi, the browsing model and the diagnostics."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ulr.config.settings import Propensities
from ulr.propensity import diagnostics
from ulr.propensity.browsing import BrowsingFit, fit_browsing
from ulr.propensity.cascade import fit_cascade
from ulr.propensity.click_model import ClickFindings
from ulr.propensity.curve import IMPUTED, ThetaCurve, fall_back, monotone
from ulr.propensity.depth import extend_psi, impute_theta, least_theta
from ulr.propensity.diagnostics import Finding, explained_by_stopping
from ulr.propensity.estimators import Evidence, estimate_theta
from ulr.propensity.joint import PairEstimate, joint_estimates, solve_pairs


@dataclass(frozen=True)
class SegmentResult:
    """Estimates of one segment, or of all traffic (segment None).

    curve: with imputed positions, if the settings say so; `own` without them. browsing: the chosen
    model. fits: all models that were fitted to the co-clicks. explainable: buckets whose
    differences at untouched positions users who stop after clicks would cause. clicks: kappa and
    the click model, from sums within rankings.
    """

    segment: str | None
    own: ThetaCurve
    curve: ThetaCurve
    pairs: list[PairEstimate]
    browsing: BrowsingFit
    fits: list[BrowsingFit]
    findings: list[Finding]
    explainable: frozenset[str] = frozenset()
    clicks: ClickFindings = field(default_factory=ClickFindings)


def estimate_segment(
    segment: str | None,
    evidence: Evidence,
    settings: Propensities,
    pooled: ThetaCurve | None = None,
) -> SegmentResult:
    """Estimate one segment; positions without an estimate take the value of `pooled`, if it has
    one, and else are imputed."""
    estimated = curve = estimate_theta(evidence, settings)
    if pooled is not None:
        curve = fall_back(curve, pooled)
    if settings.monotone:  # after the fallback, whose values may exceed those above them
        curve = monotone(curve)
    swaps = evidence.swaps if evidence.swaps.randomised else None
    significance = settings.significance
    browsing, fits = fit_browsing(
        settings.browsing_model, curve.theta, swaps, width=settings.row_width,
        theta_1=settings.theta_1,
    )  # fmt: skip
    if swaps is not None and fits and settings.browsing_model == "auto":
        fits = [*fits, fit_cascade(curve.theta, swaps)]
    solution = None
    if swaps is not None and settings.joint != "none":
        solution = solve_pairs(swaps, min_coclicks=settings.min_coclicks, joint=settings.joint)
    own = curve
    if settings.depth == IMPUTED:
        curve = impute_theta(own, least=least_theta(evidence.swaps.unswapped().clicks))
        browsing = extend_psi(browsing, curve)
    pairs = joint_estimates(curve, solution, browsing)
    findings = diagnostics.component_findings(estimated)
    findings += diagnostics.agreement_findings(estimated, significance)
    findings += diagnostics.depth_findings(curve)
    if swaps is not None:
        findings += diagnostics.sample_ratio_findings(
            swaps, significance, evidence.plan, all_traffic=segment is None
        )
        findings += diagnostics.untouched_findings(swaps, significance)
        findings += diagnostics.joint_findings(curve, pairs, theta_1=browsing.theta_1)
        findings += diagnostics.browsing_findings(browsing, fits)
    findings += diagnostics.first_position_findings(curve, browsing, settings.theta_1)
    findings += diagnostics.trust_findings(evidence.trust, significance)
    explainable = frozenset() if swaps is None else explained_by_stopping(swaps, significance)
    return SegmentResult(segment, own, curve, pairs, browsing, fits, findings, explainable)


def with_clicks(result: SegmentResult, clicks: ClickFindings, significance: float) -> SegmentResult:
    """Add what the sums within rankings say, over all traffic, and the findings that follow."""
    findings = result.findings
    if clicks.stopping is not None:
        if clicks.stopping.stops(significance):
            findings = diagnostics.explain_untouched(findings, result.explainable)
        if result.segment is None:
            findings = [*findings, diagnostics.stopping_finding(clicks.stopping, significance)]
    return replace(result, clicks=clicks, findings=findings)
