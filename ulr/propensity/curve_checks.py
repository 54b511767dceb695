"""Checks of the curve, of psi and of the browsing model (docs/methods.md section 9)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ulr.propensity.browsing import BrowsingFit
from ulr.propensity.cascade import NAME as CASCADE
from ulr.propensity.components import name_nodes
from ulr.propensity.curve import IMPUTED, ThetaCurve
from ulr.propensity.findings import (
    NOTE,
    Finding,
    bonferroni,
    chi2_p,
    t_p,
)
from ulr.propensity.joint import ANCHOR, PairEstimate

FIRST_POSITION = "theta(1)"  # subject of the note of the check `joint`
MAX_IGNORED = 0.01  # of the impressions, of documents without features
MAX_SLOPE = 1.5  # of relevance on its prediction, or its inverse


def component_findings(curve: ThetaCurve) -> list[Finding]:
    """Check that comparisons link all positions."""
    parts = curve.components
    if len(parts) <= 1:
        message = (
            f"positions {name_nodes(parts[0])} are all linked" if parts else "no positions to link"
        )
        return [Finding("components", "all", len(parts), np.nan, "ok", message)]
    first, others = parts[0], parts[1:]
    if curve.relevance is not None and not np.isnan(curve.relevance.slope):
        message = (
            f"only features link positions {name_nodes(first)} to the others: no document was "
            "shown at both, so theta rests on the relevance that features predict"
        )
        return [Finding("components", "all", len(parts), np.nan, NOTE, message)]
    message = (
        f"no comparison links positions {name_nodes(first)} to "
        + " or to ".join(name_nodes(part) for part in others)
        + ", so their theta values have no common scale; add a swap bucket between them, such as "
        + ", ".join(f"{first[0]}:{part[0]}" for part in others)
    )
    return [Finding("components", "all", len(parts), np.nan, "refused", message)]


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


def drift_findings(before: ThetaCurve, after: ThetaCurve, significance: float) -> list[Finding]:
    """Test whether log theta changed between two windows, over their common positions (Wald).

    A jackknife covariance cannot be inverted; in that case the largest change is tested instead.
    """
    change = compare_curves(before, after)
    return bonferroni([("drift", "theta", *change)], significance) if change else []


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
        p = chi2_p(statistic, both.size)
    else:
        statistic = float(standardised[largest])
        p = min(1.0, both.size * 2 * t_p(statistic, dof))
    return statistic, p, message
