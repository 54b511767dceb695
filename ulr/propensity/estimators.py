"""Estimators by name: from evidence to a curve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from ulr.config.settings import Propensities
from ulr.propensity.adjacent_chain import adjacent_chain_curve
from ulr.propensity.affine import Regression, affine_curve
from ulr.propensity.arms import SwapCounts
from ulr.propensity.combined import combined_curve
from ulr.propensity.curve import Curve
from ulr.propensity.given import given_curve
from ulr.propensity.harvesting import harvested_curve
from ulr.propensity.regression_em import Exposures, em_curve
from ulr.propensity.single_swap import single_swap_curve


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
    "affine": lambda e, how: affine_curve(
        e.trust or [], e.swaps.positions, first_beta=how.first_beta
    ),
    "given": lambda e, how: given_curve(e.theta or []),
}

SWAPS = ("single_swap", "adjacent_chain", "combined", "affine")
HARVESTS = ("all_pairs", "pivot", "adjacent")
