"""Every bucket at once: weighted least squares on all log ratios that swaps give."""

from __future__ import annotations

from ulr.propensity.arms import SwapCounts
from ulr.propensity.curve import Curve, curve_of
from ulr.propensity.least_squares import solve_ratios
from ulr.propensity.ratios import position_ratios


def combined_curve(counts: SwapCounts, *, min_clicks: int) -> Curve:
    """Single, adjacent and pair swaps together; any connected set of buckets serves."""
    ratios = [
        position_ratios(arms)
        for arms in counts.buckets.values()
        if arms.bucket.last_position <= counts.positions
    ]
    nodes = range(1, counts.positions + 1)
    solution = solve_ratios(ratios, nodes, anchor=1, min_support=min_clicks)
    return curve_of(solution, counts.positions, "combined")
