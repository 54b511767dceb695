"""All estimates of one segment: theta, psi, the browsing model and the diagnostics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ulr.config.settings import Propensities
from ulr.propensity import diagnostics
from ulr.propensity.browsing import BrowsingFit, fit_browsing
from ulr.propensity.covariance import psi_covariance
from ulr.propensity.curve import ThetaCurve, fall_back, monotone
from ulr.propensity.diagnostics import Finding
from ulr.propensity.estimators import Evidence, estimate_theta
from ulr.propensity.joint import PairEstimate, joint_estimates, solve_pairs


@dataclass(frozen=True)
class SegmentResult:
    """Estimates of one segment, or of all traffic (segment None).

    browsing: the chosen model. fits: all models that were fitted to the co-clicks.
    pair_covariance: (pairs, pairs), of log psi relative to psi(1, 2), in the order of `pairs`.
    """

    segment: str | None
    curve: ThetaCurve
    pairs: list[PairEstimate]
    browsing: BrowsingFit
    fits: list[BrowsingFit]
    findings: list[Finding]
    pair_covariance: np.ndarray


def estimate_segment(
    segment: str | None,
    evidence: Evidence,
    settings: Propensities,
    pooled: ThetaCurve | None = None,
) -> SegmentResult:
    """Estimate one segment; positions without an estimate take the value of `pooled`."""
    own = curve = estimate_theta(evidence, settings)
    if pooled is not None:
        curve = fall_back(curve, pooled)
    if settings.monotone:  # after the fallback, whose values may exceed those above them
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
    findings += diagnostics.trust_findings(evidence.trust, significance)
    covariance = psi_covariance([(pair.k, pair.l) for pair in pairs], solution)
    return SegmentResult(segment, curve, pairs, browsing, fits, findings, covariance)
