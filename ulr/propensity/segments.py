"""All estimates of one segment: theta, psi, the browsing model and the diagnostics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ulr.config.settings import Propensities
from ulr.errors import UserError
from ulr.propensity import curve_checks, experiment_checks
from ulr.propensity.browsing import BrowsingFit, fit_browsing
from ulr.propensity.cascade import fit_cascade
from ulr.propensity.choice import Choice
from ulr.propensity.click_model import ClickFindings
from ulr.propensity.covariance import psi_covariance
from ulr.propensity.curve import IMPUTED, ThetaCurve, fall_back, monotone
from ulr.propensity.depth import extend_psi, impute_theta, least_theta
from ulr.propensity.estimators import NEED_HARVEST, Evidence, estimate_theta
from ulr.propensity.experiment_checks import explained_by_stopping
from ulr.propensity.findings import Finding
from ulr.propensity.harvest_checks import harvest_findings, swap_findings
from ulr.propensity.harvesting import FORMS, harvested_curve
from ulr.propensity.joint import PairEstimate, joint_estimates, solve_pairs
from ulr.propensity.shrinkage import shrink


@dataclass(frozen=True)
class SegmentResult:
    """Estimates of one segment, or of all traffic (segment None).

    curve: with imputed positions, if the settings say so; `own` without them. browsing: the chosen
    model. fits: all models that were fitted to the co-clicks. pair_covariance: (pairs, pairs), of
    log psi relative to psi(1, 2), in the order of `pairs`. explainable: buckets whose differences
    at untouched positions users who stop after clicks would cause. clicks: kappa and the click
    model, from sums within rankings.
    """

    segment: str | None
    own: ThetaCurve
    curve: ThetaCurve
    pairs: list[PairEstimate]
    browsing: BrowsingFit
    fits: list[BrowsingFit]
    findings: list[Finding]
    pair_covariance: np.ndarray
    explainable: frozenset[str] = frozenset()
    clicks: ClickFindings = field(default_factory=ClickFindings)


def estimate_segments(
    traffic: Evidence, segments: Mapping[str, Evidence], settings: Propensities
) -> list[SegmentResult]:
    """Return the estimates of all traffic, then of the segments, which shrink towards them."""
    pooled = estimate_theta(traffic, settings)
    own = [estimate_theta(evidence, settings) for evidence in segments.values()]
    if settings.estimator == "affine":
        curves = [fall_back(curve, pooled) for curve in own]
    else:
        curves = shrink(own, pooled) if own else []
    results = [_complete(None, traffic, settings, pooled, pooled)]
    return results + [
        _complete(name, evidence, settings, *both)
        for (name, evidence), *both in zip(segments.items(), own, curves, strict=True)
    ]


def _complete(
    segment: str | None,
    evidence: Evidence,
    settings: Propensities,
    own: ThetaCurve,
    curve: ThetaCurve,
) -> SegmentResult:
    """Add psi, the browsing model and the diagnostics. own: the curve of the segment alone."""
    if settings.monotone:  # after the shrinkage, whose values may exceed those above them
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
    estimated = curve
    if settings.depth == IMPUTED:
        curve = impute_theta(curve, least=least_theta(evidence.swaps.unswapped().clicks))
        browsing = extend_psi(browsing, curve)
    pairs = joint_estimates(curve, solution, browsing)
    findings = _curve_findings(own, evidence, settings) + curve_checks.depth_findings(curve)
    if swaps is not None:
        findings += experiment_checks.sample_ratio_findings(
            swaps, significance, evidence.plan, all_traffic=segment is None
        )
        findings += experiment_checks.untouched_findings(swaps, significance)
        findings += curve_checks.joint_findings(curve, pairs, theta_1=browsing.theta_1)
        findings += curve_checks.browsing_findings(browsing, fits)
    findings += curve_checks.first_position_findings(curve, browsing, settings.theta_1)
    findings += experiment_checks.trust_findings(evidence.trust, significance)
    covariance = psi_covariance([(pair.k, pair.l) for pair in pairs], solution)
    explainable = frozenset() if swaps is None else explained_by_stopping(swaps, significance)
    return SegmentResult(
        segment, estimated, curve, pairs, browsing, fits, findings, covariance, explainable
    )


def _curve_findings(own: ThetaCurve, evidence: Evidence, settings: Propensities) -> list[Finding]:
    """Check the estimates of a segment alone, before they are shrunk, smoothed or imputed."""
    significance, min_clicks = settings.significance, settings.min_clicks
    findings = curve_checks.component_findings(own)
    findings += experiment_checks.agreement_findings(own, significance)
    findings += curve_checks.relevance_findings(own)
    other = own
    if settings.estimator in NEED_HARVEST:
        form = settings.estimator if settings.estimator in FORMS else "all_pairs"
        other = harvested_curve(evidence.harvest, own.positions, form=form, min_clicks=min_clicks)
        findings += harvest_findings(
            evidence.harvest, other, min_clicks=min_clicks, significance=significance
        )
    if evidence.swaps.randomised and settings.estimator in (*NEED_HARVEST, "regression_em"):
        findings += swap_findings(
            other, evidence.swaps, min_clicks=min_clicks, significance=significance
        )
    return findings


def with_choice(results: list[SegmentResult], choice: Choice | None) -> list[SegmentResult]:
    """Put the finding of `auto` before those of all traffic; UserError if theta is unknown."""
    if choice is None:
        return results
    pooled = results[0]
    if np.isnan(pooled.own.theta[1:]).all():
        raise UserError(
            f"{choice.finding.message}; no position below the first has an estimate: "
            f"{pooled.own.note[1]}"
        )
    return [replace(pooled, findings=[choice.finding, *pooled.findings]), *results[1:]]


def with_clicks(result: SegmentResult, clicks: ClickFindings, significance: float) -> SegmentResult:
    """Add what the sums within rankings say, over all traffic, and the findings that follow."""
    findings = result.findings
    if clicks.stopping is not None:
        if clicks.stopping.stops(significance):
            findings = experiment_checks.explain_untouched(findings, result.explainable)
        if result.segment is None:
            findings = [
                *findings,
                experiment_checks.stopping_finding(clicks.stopping, significance),
            ]
    return replace(result, clicks=clicks, findings=findings)
