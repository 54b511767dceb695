"""From evidence to results: all traffic first, then each segment, falling back where it is thin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ulr.config.settings import Propensities
from ulr.propensity import diagnostics
from ulr.propensity.browsing import fit_browsing
from ulr.propensity.curve import Curve, monotone
from ulr.propensity.estimators import ESTIMATORS, Evidence
from ulr.propensity.joint import joint_estimates, measure_pairs
from ulr.propensity.report import SegmentResult


def estimate_segment(
    segment: str | None, evidence: Evidence, how: Propensities, pooled: Curve | None = None
) -> SegmentResult:
    """theta, psi and diagnostics of one segment; thin positions take theirs from `pooled`."""
    measured = curve = ESTIMATORS[how.estimator](evidence, how)
    if pooled is not None:
        curve = fall_back(curve, pooled)
    if how.monotone:  # last: a value of all traffic's may rise above the segment's own
        curve = monotone(curve)
    swaps = evidence.swaps if evidence.swaps.buckets else None
    fit, fared = fit_browsing(how.browsing, curve.theta, swaps, width=how.row_width)
    solution = None
    if swaps is not None and how.joint != "none":
        solution = measure_pairs(swaps, min_coclicks=how.min_coclicks, joint=how.joint)
    pairs = joint_estimates(curve, solution, fit)
    findings = diagnostics.component_findings(measured)
    findings += diagnostics.agreement_findings(measured, how.alarm)
    if swaps is not None:
        findings += diagnostics.sample_ratio_findings(swaps, how.alarm)
        findings += diagnostics.untouched_findings(swaps, how.alarm)
        findings += diagnostics.joint_findings(curve, pairs)
        findings += diagnostics.browsing_findings(fit, fared)
    findings += diagnostics.trust_findings(evidence.trust or [], how.alarm)
    return SegmentResult(segment, curve, pairs, fit, fared, findings)


def fall_back(curve: Curve, pooled: Curve) -> Curve:
    """Take all traffic's value where the segment's own was refused, and say so."""
    thin = [
        i
        for i in range(curve.positions)
        if np.isnan(curve.theta[i]) and not np.isnan(pooled.theta[i])
    ]
    values = {name: _taken(curve, pooled, name, thin) for name in ("theta", "alpha", "beta")}
    covariance = curve.covariance.copy()
    source, note = list(curve.source), list(curve.note)
    covariance[thin, :] = covariance[:, thin] = 0.0
    covariance[np.ix_(thin, thin)] = pooled.covariance[np.ix_(thin, thin)]
    for i in thin:
        source[i], note[i] = "pooled", f"all traffic's value; this segment: {note[i]}"
    return replace(curve, **values, covariance=covariance, source=source, note=note)


def _taken(curve: Curve, pooled: Curve, name: str, thin: list[int]) -> np.ndarray | None:
    """One of the curve's arrays with all traffic's values at the thin positions."""
    own, others = getattr(curve, name), getattr(pooled, name)
    if own is None or others is None:
        return own
    taken = own.copy()
    taken[thin] = others[thin]
    return taken
