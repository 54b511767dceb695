"""Tests of the assumptions behind the estimates (docs/methods.md section 9).

A check that consists of m tests warns if a p-value is below significance / m (Bonferroni), which
limits false alarms.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtrc, stdtr

from ulr.experiments.serving import Plan
from ulr.propensity import planned
from ulr.propensity.affine import Regression
from ulr.propensity.browsing import BrowsingFit
from ulr.propensity.cascade import NAME as CASCADE
from ulr.propensity.components import name_nodes
from ulr.propensity.curve import IMPUTED, ThetaCurve
from ulr.propensity.joint import ANCHOR, PairEstimate
from ulr.propensity.stopping import Stopping
from ulr.propensity.swap_counts import BucketArms, SwapCounts

FIRST_POSITION = "theta(1)"  # subject of the note of the check `joint`
NOTE = "note"  # a verdict that is shown and blocks no promotion by default
MAX_IGNORED = 0.01  # of the impressions, of documents without features
MAX_SLOPE = 1.5  # of relevance on its prediction, or its inverse

# The alarms of these checks block a promotion by default. Those of other checks are notes: a log
# without swap buckets, or of users who stop after clicks, can have a champion too.
BLOCKING_CHECKS = ("components", "sample_ratio", "agreement")
STOPS_AFTER_CLICK = "stops_after_click"


@dataclass(frozen=True)
class Finding:
    """The result of one check of one subject. verdict: ok, note, warning or refused.

    A note is an alarm that never blocks a promotion by default.
    """

    check: str
    subject: str
    value: float
    p_value: float
    verdict: str
    message: str


def _bonferroni(
    rows: list[tuple[str, str, float, float, str]], significance: float
) -> list[Finding]:
    """Return the findings of one check; a row is (check, subject, value, p_value, message)."""
    limit = significance / max(len(rows), 1)
    return [Finding(*row[:4], _verdict(row[0], row[3] < limit), row[4]) for row in rows]


def _verdict(check: str, alarm: bool) -> str:
    if not alarm:
        return "ok"
    return "warning" if check in BLOCKING_CHECKS else "note"


def _chi2_p(statistic: float, dof: int) -> float:
    """Return P(chi-square >= statistic), as scipy.stats, which takes 0.5 s to import."""
    return float(chdtrc(dof, max(statistic, 0.0)))


def _t_p(statistic: float, dof: float) -> float:
    """Return P(Student's t >= statistic)."""
    return float(stdtr(dof, -statistic))


def component_findings(curve: ThetaCurve) -> list[Finding]:
    """Check that comparisons link all positions."""
    parts = curve.components
    if len(parts) <= 1:
        message = (
            f"positions {name_nodes(parts[0])} are all linked" if parts else "no positions to link"
        )
        return [Finding("components", "all", len(parts), np.nan, "ok", message)]
    first, others = parts[0], parts[1:]
    message = (
        f"no comparison links positions {name_nodes(first)} to "
        + " or to ".join(name_nodes(part) for part in others)
        + ", so their theta values have no common scale; add a swap bucket between them, such as "
        + ", ".join(f"{first[0]}:{part[0]}" for part in others)
    )
    return [Finding("components", "all", len(parts), np.nan, "refused", message)]


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
    return _bonferroni(rows, significance)


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
            p = _chi2_p(statistic, positions)
            rows.append(("untouched", name, statistic, p, message))
    return _bonferroni(rows, significance)


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
        agrees = not positions or _chi2_p(statistic, positions) >= limit
        if agrees and change[first] * change[between].sum() < 0:
            names.add(name)
    return frozenset(names)


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


def agreement_findings(curve: ThetaCurve, significance: float) -> list[Finding]:
    """Test whether different buckets agree on theta: chi-square of the misfit."""
    if curve.misfit is None or curve.misfit[1] <= 0:
        return []
    statistic, dof = curve.misfit
    p = _chi2_p(statistic, dof)
    message = (
        f"agreement of the buckets on theta: chi-square {statistic:.1f} with {dof} degrees of "
        "freedom"
    )
    return _bonferroni([("agreement", "buckets", statistic, p, message)], significance)


def depth_findings(curve: ThetaCurve) -> list[Finding]:
    """Say which positions have an imputed theta, and how uncertain it is."""
    imputed = np.flatnonzero([source == IMPUTED for source in curve.source])
    if not imputed.size:
        return []
    fitted = [i + 1 for i, source in enumerate(curve.source) if i and source != IMPUTED]
    errors = np.sqrt(np.diag(curve.covariance)[imputed])
    message = (
        f"theta of {imputed.size} positions is imputed, {position_ranges(imputed + 1)}: "
        f"{curve.note[imputed[0]].partition(';')[0]}, fitted to {position_ranges(fitted)}; "
        f"standard errors of log theta {errors.min():.2f} to {errors.max():.2f}"
    )
    return [Finding("depth", "all", float(imputed.size), np.nan, "ok", message)]


def position_ranges(positions: Iterable[int]) -> str:
    """Return ascending positions as text such as `2, 4-6`."""
    runs: list[list[int]] = []
    for position in map(int, positions):
        if runs and position == runs[-1][-1] + 1:
            runs[-1].append(position)
        else:
            runs.append([position])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def joint_findings(
    curve: ThetaCurve, pairs: Iterable[PairEstimate], *, theta_1: float = 1.0
) -> list[Finding]:
    """Compare each estimated psi with the product and the minimum of its two theta values.

    theta_1: P(position 1 is examined), to which psi and theta are relative.
    """
    rows, products, minima = [], 0, 0
    for pair in pairs:
        if pair.source != "estimated" or (pair.k, pair.l) == ANCHOR:
            continue
        a, b = curve.theta[pair.k - 1], curve.theta[pair.l - 1]
        product = theta_1 * a * b
        low, high = pair.interval()
        products += low <= product <= high
        minima += low <= min(a, b) <= high
        message = (
            f"psi {pair.raw:.4f} [{low:.4f}, {high:.4f}]; product {product:.4f}, "
            f"minimum {min(a, b):.4f}"
        )
        rows.append(Finding("joint", f"({pair.k}, {pair.l})", pair.raw, np.nan, "ok", message))
    if rows:
        message = (
            f"of {len(rows)} estimated pairs, {products} intervals contain the product "
            f"(independent browsing) and {minima} the minimum (continuous browsing)"
        )
        rows.insert(0, Finding("joint", "all", float(len(rows)), np.nan, "ok", message))
    return rows


def first_position_findings(
    curve: ThetaCurve, chosen: BrowsingFit, given: float | None
) -> list[Finding]:
    """State what is assumed about P(position 1 is examined) where psi depends on it.

    given: the setting theta_1. Nested models and row skipping do not assume theta(1) = 1, and a
    given curve below 1 at position 1 is not relative.
    """
    if chosen.name != "independent" or curve.theta[0] < 1:
        return []
    message = (
        f"position 1 is examined with probability {given:g} (propensities.theta_1), so the product "
        f"relative to position 1 is {given:g} theta(k) theta(l)"
        if given is not None
        else "position 1 is assumed to be always examined; if it is not, every `joint` weight has "
        "the additional expectation (1 - theta(1)) r_i r_j, up to a common factor; set "
        "propensities.theta_1 where theta(1) is known"
    )
    return [Finding("joint", FIRST_POSITION, chosen.theta_1, np.nan, "ok", message)]


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
    verdict = _verdict(STOPS_AFTER_CLICK, stops)
    return Finding(STOPS_AFTER_CLICK, "all", stopping.phi, stopping.p_value, verdict, message)


def explain_untouched(findings: Iterable[Finding], explained: frozenset[str]) -> list[Finding]:
    """Clear the alarms at untouched positions of the buckets in `explained`."""
    reason = "; expected: users stop after clicks, so a swap changes who sees the positions below"
    return [
        replace(f, verdict="ok", message=f.message + reason)
        if f.check == "untouched" and f.verdict != "ok" and f.subject in explained
        else f
        for f in findings
    ]


def browsing_findings(chosen: BrowsingFit, fits: Iterable[BrowsingFit]) -> list[Finding]:
    """Report the BIC of every browsing model on the co-clicks."""
    fits = list(fits)
    lowest = min((fit.bic for fit in fits), default=np.nan)
    rows = []
    for fit in fits:
        above = f"{fit.bic - lowest:,.0f} above the lowest" if fit.bic > lowest else "the lowest"
        message = f"{fit.name}: BIC {fit.bic:,.0f}, {above}"
        message += "; chosen" if fit.name == chosen.name else ""
        message += "; it has no psi(k, l)" if fit.name == CASCADE else ""
        rows.append(Finding("browsing", fit.name, fit.bic, np.nan, "ok", message))
    return rows


def relevance_findings(curve: ThetaCurve) -> list[Finding]:
    """Report how regression-EM predicted relevance, and the documents that it ignored."""
    fit = curve.relevance
    if fit is None:
        return []
    fraction = fit.ignored_impressions / max(fit.ignored_impressions + fit.impressions, 1)
    findings = [
        Finding(
            "features", "documents", fraction, np.nan, NOTE if fraction > MAX_IGNORED else "ok",
            f"{fit.ignored_documents:,} of {fit.documents + fit.ignored_documents:,} documents "
            f"have no features and are ignored, with {fraction:.1%} of the impressions",
        )
    ]  # fmt: skip
    if not np.isnan(fit.slope):
        far = not 1 / MAX_SLOPE <= fit.slope <= MAX_SLOPE
        message = (
            f"relevance has slope {fit.slope:.2f} on its prediction from other queries after "
            f"{fit.rounds} rounds; 1 is calibrated, above 1 the trees are too few"
        )
        findings.append(
            Finding("calibration", "relevance", fit.slope, np.nan, NOTE if far else "ok", message)
        )
    return findings


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
            p = 2 * _t_p(abs(value) / max(error, 1e-300), fit.dof)
            message = (
                f"position {fit.position}: {name} {value:.4f}, standard error {error:.4f}; a value "
                f"other than 0 means {meaning}"
            )
            rows.append((name, str(fit.position), value, p, message))
        findings += _bonferroni(rows, significance)
    return findings


def drift_findings(before: ThetaCurve, after: ThetaCurve, significance: float) -> list[Finding]:
    """Test whether log theta changed between two windows, over their common positions (Wald).

    A jackknife covariance cannot be inverted; in that case the largest change is tested instead.
    """
    change = compare_curves(before, after)
    return _bonferroni([("drift", "theta", *change)], significance) if change else []


def compare_curves(before: ThetaCurve, after: ThetaCurve) -> tuple[float, float, str] | None:
    """Return statistic, p-value and message of a difference; None without a common position."""
    depth = min(before.positions, after.positions)
    both = np.flatnonzero(~np.isnan(before.theta[1:depth]) & ~np.isnan(after.theta[1:depth])) + 1
    if not both.size:
        return None
    selected = np.ix_(both, both)
    change = np.log(after.theta[both]) - np.log(before.theta[both])
    covariance = before.covariance[selected] + after.covariance[selected]
    standardised = np.abs(change) / np.sqrt(np.diag(covariance))
    largest = int(np.argmax(standardised))
    message = (
        f"{both.size} positions compared; largest change at position {both[largest] + 1}: "
        f"{np.expm1(change[largest]):+.1%}"
    )
    dof = min(before.dof, after.dof)
    if np.isinf(dof):
        statistic = float(change @ np.linalg.pinv(covariance, hermitian=True) @ change)
        p = _chi2_p(statistic, both.size)
    else:
        statistic = float(standardised[largest])
        p = min(1.0, both.size * 2 * _t_p(statistic, dof))
    return statistic, p, message
