"""Checks of swap experiments (docs/methods.md section 9)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ulr.experiments.serving import Plan
from ulr.propensity import planned
from ulr.propensity.affine import Regression
from ulr.propensity.curve import ThetaCurve
from ulr.propensity.findings import (
    Finding,
    bonferroni,
    chi2_p,
    t_p,
    verdict_of,
)
from ulr.propensity.stopping import Stopping
from ulr.propensity.swap_counts import BucketArms, SwapCounts

STOPS_AFTER_CLICK = "stops_after_click"


def sample_ratio_findings(
    counts: SwapCounts, significance: float, plan: Plan | None = None, *, all_traffic: bool = True
) -> list[Finding]:
    """Test whether the arms of each bucket, and the buckets of a plan, have their planned sizes.

    Without a plan both arms have a half of the pages. Buckets without pages are normal in a segment
    and named for all traffic only.
    """
    rows = [
        planned.arm_row(
            name, arms.kept.sessions, arms.swapped.sessions,
            plan.swapped_fraction(name) if plan else 0.5,
        )
        for name, arms in counts.buckets.items()
    ]  # fmt: skip
    if plan is not None:
        rows += planned.bucket_rows(counts, plan)
        rows += planned.name_rows(counts, plan) if all_traffic else []
    return bonferroni(rows, significance)


def untouched_findings(counts: SwapCounts, significance: float) -> list[Finding]:
    """Test whether click rates at positions that a bucket does not move differ by arm (Wald)."""
    rows = []
    for name, arms in counts.buckets.items():
        statistic, positions, largest = _untouched(arms, _unmoved(arms))
        if positions:
            message = (
                f"bucket {name}: click rates of {positions} positions that it does not move; "
                f"largest difference between the arms at position {largest}"
            )
            p = chi2_p(statistic, positions)
            rows.append(("untouched", name, statistic, p, message))
    return bonferroni(rows, significance)


def explained_by_stopping(counts: SwapCounts, significance: float) -> frozenset[str]:
    """Return the buckets whose differences at untouched positions users who stop would cause.

    A swap changes what is clicked above the positions between those it moves, and nothing for the
    others. So the positions above the first and below the last one must agree. Those between must
    be clicked more often in the arm with fewer clicks at the first position, in total.
    """
    names, limit = set(), significance / max(len(counts.buckets), 1)
    for name, arms in counts.buckets.items():
        if not min(arms.kept.sessions, arms.swapped.sessions):
            continue
        first, last = arms.bucket.positions[0] - 1, arms.bucket.positions[-1] - 1
        index = _unmoved(arms)
        outside = [i for i in index if not first < i < last]
        between = [i for i in index if first < i < last]
        change = arms.swapped.clicks / arms.swapped.sessions - arms.kept.clicks / arms.kept.sessions
        statistic, positions, _ = _untouched(arms, outside)
        agrees = not positions or chi2_p(statistic, positions) >= limit
        if agrees and change[first] * change[between].sum() < 0:
            names.add(name)
    return frozenset(names)


def explain_untouched(findings: Iterable[Finding], explained: frozenset[str]) -> list[Finding]:
    """Clear the alarms at untouched positions of the buckets in `explained`."""
    reason = "; expected: users stop after clicks, so a swap changes who sees the positions below"
    return [
        replace(f, verdict="ok", message=f.message + reason)
        if f.check == "untouched" and f.verdict != "ok" and f.subject in explained
        else f
        for f in findings
    ]


def _unmoved(arms: BucketArms) -> list[int]:
    """Return the indices with clicks in both arms that the bucket does not move."""
    clicked = (arms.kept.clicks >= 5) & (arms.swapped.clicks >= 5)
    return [i for i in np.flatnonzero(clicked).tolist() if i + 1 not in arms.bucket.positions]


def _untouched(arms: BucketArms, index: list[int]) -> tuple[float, int, int]:
    """Return the statistic, the number of positions, and the position that differs most."""
    kept, swapped = arms.kept, arms.swapped
    if not index:
        return 0.0, 0, 0
    difference, covariance = np.zeros(len(index)), np.zeros((len(index), len(index)))
    for arm, sign in ((kept, 1), (swapped, -1)):
        rate = arm.clicks[index] / arm.sessions
        both = arm.co_clicks[np.ix_(index, index)] / arm.sessions
        difference += sign * rate
        covariance += (both - np.outer(rate, rate)) / arm.sessions
    statistic = float(difference @ np.linalg.pinv(covariance, hermitian=True) @ difference)
    largest = int(np.argmax(np.abs(difference) / np.sqrt(np.diag(covariance))))
    return statistic, len(index), index[largest] + 1


def stopping_finding(stopping: Stopping, significance: float) -> Finding:
    """Report phi and beta; an alarm if users stop after clicks. Cascade fits the co-clicks best."""
    low, high = stopping.interval("phi")
    message = f"phi = {stopping.phi:.3f} [{low:.3f}, {high:.3f}]"
    if np.isfinite(stopping.beta):
        low, high = stopping.interval("beta")
        message += f", beta = {stopping.beta:.3f} [{low:.3f}, {high:.3f}]"
    stops = stopping.stops(significance)
    if stops:
        remedy = (
            "use pairs.method=auto or cascade"
            if np.isfinite(stopping.beta)
            else "no method corrects for them: beta needs a swap bucket and clicks after clicks"
        )
        message = (
            f"users stop after clicks: {message}; no theta(k) and psi(k, l) describe them, {remedy}"
        )
    else:
        message = f"users may stop after clicks, but phi is not significantly above 0: {message}"
    verdict = verdict_of(STOPS_AFTER_CLICK, stops)
    return Finding(STOPS_AFTER_CLICK, "all", stopping.phi, stopping.p_value, verdict, message)


def agreement_findings(curve: ThetaCurve, significance: float) -> list[Finding]:
    """Test whether different buckets agree on theta: chi-square of the misfit."""
    if curve.misfit is None or curve.misfit[1] <= 0:
        return []
    statistic, dof = curve.misfit
    p = chi2_p(statistic, dof)
    message = (
        f"agreement of the buckets on theta: chi-square {statistic:.1f} with {dof} degrees of "
        "freedom"
    )
    return bonferroni([("agreement", "buckets", statistic, p, message)], significance)


def trust_findings(fits: list[Regression], significance: float) -> list[Finding]:
    """Test intercepts (trust bias) and curvatures (clicks that are not affine) against 0."""
    meanings = {
        "intercept": "trust bias; use propensities.estimator=affine",
        "curvature": "that clicks are not affine in relevance",
    }
    findings = []
    for name, meaning in meanings.items():
        rows = []
        for fit in fits:
            value, error = getattr(fit, name), getattr(fit, f"{name}_error")
            p = 2 * t_p(abs(value) / max(error, 1e-300), fit.dof)
            message = (
                f"position {fit.position}: {name} {value:.4f}, standard error {error:.4f}; a value "
                f"other than 0 means {meaning}"
            )
            rows.append((name, str(fit.position), value, p, message))
        findings += bonferroni(rows, significance)
    return findings
