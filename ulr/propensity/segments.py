"""All estimates of one segment: theta, psi, the browsing model and the diagnostics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ulr.config.settings import Propensities
from ulr.propensity import diagnostics
from ulr.propensity.browsing import BrowsingFit, fit_browsing
from ulr.propensity.curve import ThetaCurve, fall_back, monotone
from ulr.propensity.diagnostics import Finding
from ulr.propensity.estimators import NEED_HARVEST, Evidence, estimate_theta
from ulr.propensity.harvest_checks import harvest_findings, swap_findings
from ulr.propensity.joint import PairEstimate, joint_estimates, solve_pairs
from ulr.propensity.shrinkage import shrink


@dataclass(frozen=True)
class SegmentResult:
    """Estimates of one segment, or of all traffic (segment None).

    browsing: the chosen model. fits: all models that were fitted to the co-clicks.
    """

    segment: str | None
    curve: ThetaCurve
    pairs: list[PairEstimate]
    browsing: BrowsingFit
    fits: list[BrowsingFit]
    findings: list[Finding]


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
    width, significance = settings.row_width, settings.significance
    browsing, fits = fit_browsing(settings.browsing_model, curve.theta, swaps, width=width)
    solution = None
    if swaps is not None and settings.joint != "none":
        solution = solve_pairs(swaps, min_coclicks=settings.min_coclicks, joint=settings.joint)
    pairs = joint_estimates(curve, solution, browsing)
    findings = diagnostics.component_findings(own)
    findings += diagnostics.agreement_findings(own, significance)
    if swaps is not None:
        findings += diagnostics.sample_ratio_findings(swaps, significance)
        findings += diagnostics.untouched_findings(swaps, significance)
        findings += diagnostics.joint_findings(curve, pairs)
        findings += diagnostics.browsing_findings(browsing, fits)
    findings += diagnostics.relevance_findings(own)
    if settings.estimator in NEED_HARVEST:
        findings += harvest_findings(
            evidence.harvest, own, min_clicks=settings.min_clicks, significance=significance
        )
    if swaps is not None and settings.estimator in (*NEED_HARVEST, "regression_em"):
        findings += swap_findings(
            own, swaps, min_clicks=settings.min_clicks, significance=significance
        )
    findings += diagnostics.trust_findings(evidence.trust, significance)
    return SegmentResult(segment, curve, pairs, browsing, fits, findings)
