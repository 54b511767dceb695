"""Estimators by name: from evidence to a curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ulr.config.settings import Propensities
from ulr.errors import UserError
from ulr.propensity.affine import Regression, affine_curve
from ulr.propensity.curve import Curve, curve_of
from ulr.propensity.harvesting import harvested_curve
from ulr.propensity.least_squares import solve_ratios
from ulr.propensity.ratios import position_ratios
from ulr.propensity.regression_em import Exposures, em_curve
from ulr.propensity.swap_counts import SwapCounts


@dataclass(frozen=True)
class Evidence:
    """What is known of some traffic; what an estimator does not ask for may be missing."""

    swaps: SwapCounts
    harvest: pa.Table | None = None
    trust: list[Regression] | None = None
    shown: Exposures | None = None
    theta: list[float] | None = None


Estimator = Callable[[Evidence, Propensities], Curve]


def _harvested(form: str) -> Estimator:
    return lambda e, how: harvested_curve(
        e.harvest, e.swaps.positions, form=form, min_clicks=how.min_clicks
    )


def _regression_em(evidence: Evidence, how: Propensities) -> Curve:
    em = how.regression_em
    return em_curve(
        evidence.shown,
        evidence.swaps.positions,
        rounds=em.rounds,
        trees=em.trees,
        leaves=em.leaves,
        min_clicks=how.min_clicks,
    )


ESTIMATORS: dict[str, Estimator] = {
    "single_swap": lambda e, how: single_swap_curve(e.swaps, min_clicks=how.min_clicks),
    "adjacent_chain": lambda e, how: adjacent_chain_curve(e.swaps, min_clicks=how.min_clicks),
    "combined": lambda e, how: combined_curve(e.swaps, min_clicks=how.min_clicks),
    "all_pairs": _harvested("all_pairs"),
    "pivot": _harvested("pivot"),
    "adjacent": _harvested("adjacent"),
    "regression_em": _regression_em,
    "affine": lambda e, how: affine_curve(e.trust or [], e.swaps.positions, beta_1=how.beta_1),
    "given": lambda e, how: given_curve(e.theta or []),
}

SWAPS = ("single_swap", "adjacent_chain", "combined", "affine")
HARVESTS = ("all_pairs", "pivot", "adjacent")


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


def given_curve(theta: Sequence[float]) -> Curve:
    """A curve without errors. theta(1) comes first; values above 0, at most 1."""
    values = np.asarray(theta, float)
    if values.ndim != 1 or not values.size or not np.all((values > 0) & (values <= 1)):
        raise UserError(
            f"propensities.given: {list(theta)!r}; give theta(1), theta(2), ... as numbers above 0 "
            "and at most 1, in propensities.given.theta or a JSON file"
        )
    n = values.size
    none = np.zeros((n, n))
    return Curve("given", values, none, np.zeros(n, np.int64), ["given"] * n, [""] * n)


def theta_of_json(content: Any, name: str) -> list[float]:
    """A list of numbers, or an object with `theta`: what `ulr propensities` writes will do."""
    if isinstance(content, dict):
        content = content.get("theta")
    if not isinstance(content, list) or not all(isinstance(x, int | float) for x in content):
        raise UserError(f"{name}: expected a list of numbers, or an object with a list 'theta'")
    return [float(x) for x in content]
