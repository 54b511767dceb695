"""Adjacent swaps (k - 1, k), Wang 2018 and PRS 4.4: the product of neighbours' ratios."""

from __future__ import annotations

from ulr.propensity.arms import SwapCounts
from ulr.propensity.curve import Curve, curve_of
from ulr.propensity.least_squares import solve_ratios
from ulr.propensity.ratios import position_ratios


def adjacent_chain_curve(counts: SwapCounts, *, min_clicks: int) -> Curve:
    """theta(k) = product of ratios up to k; variances add on the log scale along the chain."""
    ratios = [
        position_ratios(arms)
        for arms in counts.buckets.values()
        if len(arms.bucket.positions) == 2
        and arms.bucket.positions[1] == arms.bucket.positions[0] + 1
        and arms.bucket.last_position <= counts.positions
    ]
    nodes = range(1, counts.positions + 1)
    solution = solve_ratios(ratios, nodes, anchor=1, min_support=min_clicks)
    return curve_of(solution, counts.positions, "adjacent_chain")
