"""Is it safe to believe the estimates? METHODS.md 9, each check as rows and in words.

A check that makes m tests warns below alarm / m (Bonferroni), so that a night without trouble is
silent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2, t

from ulr.propensity.affine import Regression
from ulr.propensity.browsing import BrowsingFit
from ulr.propensity.curve import Curve
from ulr.propensity.joint import PairEstimate
from ulr.propensity.least_squares import name_nodes
from ulr.propensity.swap_counts import BucketArms, SwapCounts


@dataclass(frozen=True)
class Finding:
    """One check of one thing. verdict: ok, warning or refused."""

    check: str
    subject: str
    value: float
    p_value: float
    verdict: str
    message: str


def _tested(rows: list[tuple[str, str, float, float, str]], significance: float) -> list[Finding]:
    """Verdicts for (check, subject, value, p, words), all tests of one kind."""
    limit = significance / max(len(rows), 1)
    return [Finding(*row[:4], "warning" if row[3] < limit else "ok", row[4]) for row in rows]


def component_findings(curve: Curve) -> list[Finding]:
    """Which positions share a scale, and what follows."""
    parts = curve.components
    if len(parts) <= 1:
        message = f"positions {name_nodes(parts[0])} are all linked" if parts else "nothing to link"
        return [Finding("components", "all", len(parts), np.nan, "ok", message)]
    first, rest = parts[0], parts[1:]
    message = (
        f"positions {name_nodes(first)} are never linked with "
        + ", nor with ".join(name_nodes(p) for p in rest)
        + ": no theta compares them; add a swap bucket between them, such as "
        + ", ".join(f"{first[0]}:{p[0]}" for p in rest)
    )
    return [Finding("components", "all", len(parts), np.nan, "refused", message)]


def sample_ratio_findings(counts: SwapCounts, significance: float) -> list[Finding]:
    """Were requests really halved between the arms? Chi-square per bucket."""
    rows = []
    for name, arms in counts.buckets.items():
        kept, swapped = arms.kept.sessions, arms.swapped.sessions
        statistic = (kept - swapped) ** 2 / max(kept + swapped, 1)
        message = f"bucket {name}: {kept:,} pages kept, {swapped:,} swapped"
        rows.append(("sample_ratio", name, statistic, float(chi2.sf(statistic, 1)), message))
    return _tested(rows, significance)


def untouched_findings(counts: SwapCounts, significance: float) -> list[Finding]:
    """Positions that a bucket leaves alone must be clicked alike in its two arms (Wald)."""
    rows = []
    for name, arms in counts.buckets.items():
        statistic, freedom, worst = _untouched(arms)
        if freedom:
            message = f"bucket {name}: {freedom} untouched positions, most different: {worst}"
            p = float(chi2.sf(statistic, freedom))
            rows.append(("untouched", name, statistic, p, message))
    return _tested(rows, significance)


def _untouched(arms: BucketArms) -> tuple[float, int, int]:
    kept, swapped = arms.kept, arms.swapped
    clicked = (kept.clicks >= 5) & (swapped.clicks >= 5)
    index = [i for i in np.flatnonzero(clicked).tolist() if i + 1 not in arms.bucket.positions]
    if not index:
        return 0.0, 0, 0
    difference, covariance = np.zeros(len(index)), np.zeros((len(index), len(index)))
    for arm, sign in ((kept, 1), (swapped, -1)):
        rate = arm.clicks[index] / arm.sessions
        together = arm.together[np.ix_(index, index)] / arm.sessions
        difference += sign * rate
        covariance += (together - np.outer(rate, rate)) / arm.sessions
    statistic = float(difference @ np.linalg.pinv(covariance, hermitian=True) @ difference)
    worst = int(np.argmax(np.abs(difference) / np.sqrt(np.diag(covariance))))
    return statistic, len(index), index[worst] + 1


def agreement_findings(curve: Curve, significance: float) -> list[Finding]:
    """Do buckets that reach a position by different ways agree on it? Chi-square of the misfit."""
    if curve.misfit is None or curve.misfit[1] <= 0:
        return []
    statistic, freedom = curve.misfit
    p = float(chi2.sf(statistic, freedom))
    message = f"{freedom} comparisons more than needed; misfit {statistic:.1f}"
    return _tested([("agreement", "buckets", statistic, p, message)], significance)


def joint_findings(curve: Curve, pairs: Iterable[PairEstimate]) -> list[Finding]:
    """Each measured psi against the product and the minimum of its two theta."""
    rows, between = [], [0, 0]
    for pair in pairs:
        if pair.source != "estimated" or (pair.k, pair.l) == (1, 2):
            continue
        a, b = curve.theta[pair.k - 1], curve.theta[pair.l - 1]
        low, high = pair.interval()
        holds = [low <= a * b <= high, low <= min(a, b) <= high]
        between[0] += holds[0]
        between[1] += holds[1]
        message = f"psi {pair.raw:.4f} [{low:.4f}, {high:.4f}]"
        message += f"; product {a * b:.4f}, minimum {min(a, b):.4f}"
        subject = f"({pair.k}, {pair.l})"
        rows.append(Finding("joint", subject, pair.raw, np.nan, "ok", message))
    if rows:
        message = (
            f"of {len(rows)} measured pairs, {between[0]} intervals hold the product "
            f"(independent browsing) and {between[1]} the minimum (continuous)"
        )
        rows.insert(0, Finding("joint", "all", float(len(rows)), np.nan, "ok", message))
    return rows


def browsing_findings(chosen: BrowsingFit, fared: Iterable[BrowsingFit]) -> list[Finding]:
    """How every model of browsing did on the co-clicks: its BIC, and how far behind the best."""
    fits = list(fared)
    best = min((fit.bic for fit in fits), default=np.nan)
    rows = []
    for fit in fits:
        behind = f"{fit.bic - best:,.0f} behind the best" if fit.bic > best else "the best"
        message = f"{fit.name}: BIC {fit.bic:,.0f}, {behind}"
        message += "; chosen" if fit.name == chosen.name else ""
        rows.append(Finding("browsing", fit.name, fit.bic, np.nan, "ok", message))
    return rows


def trust_findings(fits: list[Regression], significance: float) -> list[Finding]:
    """Intercept: clicks that relevance does not explain. Curvature: not affine at all."""
    rows = []
    for fit in fits:
        for name, value, error, meaning in (
            ("intercept", fit.intercept, fit.intercept_error, "trust bias: use `affine`"),
            ("curvature", fit.curvature, fit.curvature_error, "clicks are not affine"),
        ):
            p = float(2 * t.sf(abs(value) / max(error, 1e-300), fit.freedom))
            message = (
                f"position {fit.position}: {name} {value:.4f} +- {error:.4f} ({meaning}, if not 0)"
            )
            rows.append((name, str(fit.position), value, p, message))
    return [
        finding
        for name in ("intercept", "curvature")
        for finding in _tested([r for r in rows if r[0] == name], significance)
    ]


def drift_findings(before: Curve, after: Curve, significance: float) -> list[Finding]:
    """Has theta changed between two windows? Wald test on the logs of the common positions.

    A covariance from a few blocks of queries cannot be inverted for so many positions: then the
    largest change decides, as one test of many.
    """
    deep = min(before.positions, after.positions)
    both = np.flatnonzero(~np.isnan(before.theta[1:deep]) & ~np.isnan(after.theta[1:deep])) + 1
    if not both.size:
        return []
    inside = np.ix_(both, both)
    change = np.log(after.theta[both]) - np.log(before.theta[both])
    covariance = before.covariance[inside] + after.covariance[inside]
    errors = np.abs(change) / np.sqrt(np.diag(covariance))
    largest = int(np.argmax(errors))
    message = (
        f"{both.size} positions compared; largest change at {both[largest] + 1}: "
        f"{np.expm1(change[largest]):+.1%}"
    )
    freedom = min(before.freedom, after.freedom)
    if np.isinf(freedom):
        statistic = float(change @ np.linalg.pinv(covariance, hermitian=True) @ change)
        p = float(chi2.sf(statistic, both.size))
    else:
        statistic = float(errors[largest])
        p = min(1.0, both.size * 2 * float(t.sf(statistic, freedom)))
    return _tested([("drift", "theta", statistic, p, message)], significance)
