"""Whether a harvested curve can be believed (docs/methods.md section 3.6).

Harvesting is right if rankings change for reasons that have nothing to do with relevance. All forms
of it have the same error otherwise. The checks are notes: they do not block a promotion.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from scipy.special import stdtr

from ulr.propensity.curve import ThetaCurve, jackknife
from ulr.propensity.curve_checks import compare_curves
from ulr.propensity.estimators import swap_curve
from ulr.propensity.findings import NOTE, Finding
from ulr.propensity.harvesting import FORMS, find_linked, leave_one_out, sums_by_block
from ulr.propensity.swap_counts import SwapCounts

MIN_BLOCKS = 4
FLOOR = 1e-12  # of a variance
Row = tuple[str, str, float, float, str]  # check, subject, value, p-value, message


def harvest_findings(
    table: pa.Table, curve: ThetaCurve, *, min_clicks: int, significance: float
) -> list[Finding]:
    """Return the checks that need no experiment. table: `harvest_schema`."""
    rows = [_days(table, curve, min_clicks), _relevance(table, curve)]
    return [_finding(row, significance) for row in rows if row is not None]


def swap_findings(
    curve: ThetaCurve, swaps: SwapCounts, *, min_clicks: int, significance: float
) -> list[Finding]:
    """Compare a curve that was estimated without swaps with that of the swaps in the log."""
    other = swap_curve(swaps, "combined", min_clicks=min_clicks)
    change = compare_curves(other, curve)
    if change is None:
        return []
    statistic, p, message = change
    message = f"theta by {curve.estimator} against the swap buckets: {message}"
    return [_finding(("harvest_swaps", "theta", statistic, p, message), significance)]


def _finding(row: Row, significance: float) -> Finding:
    return Finding(*row[:4], NOTE if row[3] < significance else "ok", row[4])


def _days(table: pa.Table, curve: ThetaCurve, min_clicks: int) -> Row | None:
    """Compare theta from documents that moved within a day with theta from moves between days.

    Relevance that moves from day to day, with the ranker behind it, is in the second only. The
    difference of log theta is tested for a slope in log position.
    """
    form, name = FORMS[curve.estimator], curve.estimator
    sums = [sums_by_block(table, curve.positions, column) for column in ("within", "between")]
    linked = [find_linked(x.sum(axis=0), name, min_clicks).positions for x in sums]
    common = np.intersect1d(linked[0], linked[1])
    within, between = (
        leave_one_out(x[np.ix_(np.arange(len(x)), at, at)], form)[:, np.isin(at, common)]
        for x, at in zip(sums, linked, strict=True)
    )
    difference = between - within
    finite = np.isfinite(difference).all(axis=0)
    difference, log_position = difference[:, finite], np.log(common[finite] + 1.0)
    if difference.shape[1] < 2 or len(difference) <= MIN_BLOCKS:
        return None
    variance = np.diag(jackknife(difference[1:]))
    weight = np.where(log_position > 0, log_position / np.maximum(variance, FLOOR), 0.0)
    slope, t, blocks = _t_statistic(difference @ weight / (weight @ log_position))
    deepest = int(common[finite][-1]) + 1
    message = (
        f"compared between days, theta is k^{slope:+.2f} times theta within days, a factor of "
        f"{deepest**slope:.2f} at position {deepest}"
    )
    return "harvest_days", "theta", slope, 2 * float(stdtr(blocks - 1, -abs(t))), message


def _relevance(table: pa.Table, curve: ThetaCurve) -> Row | None:
    """Test whether theta falls more where a query's top documents are more relevant than others.

    If rankings follow the user or the day, a document at a higher position is shown to users who
    like it more, the more so the more relevance falls within the query. If rankings change at
    random, the ratio of a document's click rates depends on the positions alone. The steepness of
    a query is measured at fixed positions, from its other documents, so the mean of the statistic
    is then 0.
    """
    known = np.flatnonzero(~np.isnan(curve.theta))
    clicks, steep = (
        x[np.ix_(np.arange(len(x)), known, known)]
        for x in (sums_by_block(table, curve.positions, name) for name in ("clicks", "steep"))
    )
    if known.size < 2 or len(clicks) < MIN_BLOCKS:
        return None
    theta = np.exp(leave_one_out(clicks, FORMS[curve.estimator]))
    factor = np.sqrt(theta[:, None, :] / theta[:, :, None])
    above = np.sign(known - known[:, None])  # 1 where k is above l
    steep, clicks = _all_and_without(steep), _all_and_without(clicks)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (steep + _swapped(steep)) / (clicks + _swapped(clicks))
        moved = np.sum(np.nan_to_num(steep - mean * clicks) * factor * above, axis=(1, 2))
    if not np.isfinite(moved).all():
        return None
    _, t, blocks = _t_statistic(moved)
    message = (
        "theta falls more in queries whose top documents are more relevant: t = "
        f"{t:.1f} with {blocks - 1} degrees of freedom"
    )
    return "harvest_relevance", "queries", t, float(stdtr(blocks - 1, -t)), message


def _all_and_without(sums: np.ndarray) -> np.ndarray:
    total = sums.sum(axis=0)
    return np.concatenate([total[None], total - sums])


def _swapped(sums: np.ndarray) -> np.ndarray:
    return np.swapaxes(sums, 1, 2)


def _t_statistic(values: np.ndarray) -> tuple[float, float, int]:
    """Return the first value, its ratio to the jackknife error of the others, and their number."""
    error = np.sqrt(jackknife(values[1:, None])[0, 0])
    return float(values[0]), float(values[0] / max(error, FLOOR)), len(values) - 1
