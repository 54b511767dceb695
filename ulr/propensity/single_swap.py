"""Single swaps (1, k), Joachims 2017: theta(k) / theta(1), pooled over documents and arms."""

from __future__ import annotations

from ulr.propensity.arms import SwapCounts
from ulr.propensity.curve import Curve, curve_of
from ulr.propensity.least_squares import solve_ratios
from ulr.propensity.ratios import position_ratios


def single_swap_curve(counts: SwapCounts, *, min_clicks: int, pooled: bool = True) -> Curve:
    """Each position by its own bucket 1:k. Not `pooled`: one document and one arm a position."""
    ratios = [
        position_ratios(arms, pooled=pooled)
        for arms in counts.buckets.values()
        if len(arms.bucket.positions) == 2
        and arms.bucket.positions[0] == 1
        and arms.bucket.last_position <= counts.positions
    ]
    nodes = range(1, counts.positions + 1)
    solution = solve_ratios(ratios, nodes, anchor=1, min_support=min_clicks)
    return curve_of(solution, counts.positions, "single_swap")
