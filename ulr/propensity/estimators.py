"""The estimators of theta by name: from the evidence of some traffic to a curve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ulr.config.settings import Propensities
from ulr.errors import UserError
from ulr.experiments.buckets import Bucket
from ulr.experiments.serving import Plan
from ulr.propensity.affine import Regression, affine_curve
from ulr.propensity.curve import ThetaCurve, make_curve
from ulr.propensity.exposures import Exposures
from ulr.propensity.extension import EXTENDED, extend_curve
from ulr.propensity.harvesting import FORMS, harvested_curve
from ulr.propensity.least_squares import solve_ratios
from ulr.propensity.ratios import position_ratios
from ulr.propensity.regression_em import em_curve
from ulr.propensity.schema import harvest_schema
from ulr.propensity.shuffle_ratios import shuffle_position_ratios
from ulr.propensity.swap_counts import SwapCounts


@dataclass(frozen=True)
class Evidence:
    """Counts of some traffic. All but `swaps` may be empty if the estimator does not need it.

    harvest: rows of `harvest_schema`. trust: regressions of the buckets 1:k. theta: the curve of
    the estimator `given`. plan: of the swap experiment, if it is known. reached: the positions of
    an extended curve that are from swaps, from 1.
    """

    swaps: SwapCounts
    harvest: pa.Table = field(default_factory=harvest_schema.empty_table)
    trust: list[Regression] = field(default_factory=list)
    exposures: Exposures | None = None
    theta: list[float] = field(default_factory=list)
    plan: Plan | None = None
    reached: Sequence[int] = ()


# Which buckets a swap estimator uses (docs/methods.md section 3.2).
SWAP_BUCKETS: dict[str, Callable[[Bucket], bool]] = {
    "single_swap": lambda bucket: len(bucket.positions) == 2 and bucket.positions[0] == 1,
    "adjacent_chain": lambda bucket: (
        len(bucket.positions) == 2 and bucket.positions[1] == bucket.positions[0] + 1
    ),
    "combined": lambda bucket: True,
    "shuffle": lambda bucket: False,
}
USE_SHUFFLES = ("combined", "shuffle")
NEED_SWAPS = (*SWAP_BUCKETS, "affine", EXTENDED)
NEED_HARVEST = (*FORMS, EXTENDED)


def estimate_theta(evidence: Evidence, settings: Propensities) -> ThetaCurve:
    """Return theta by the estimator that the settings name."""
    name, min_clicks = settings.estimator, settings.min_clicks
    positions = evidence.swaps.positions
    if name in SWAP_BUCKETS:
        return swap_curve(evidence.swaps, name, min_clicks=min_clicks)
    if name in FORMS:
        return harvested_curve(evidence.harvest, positions, form=name, min_clicks=min_clicks)
    if name == EXTENDED:
        return extend_curve(
            swap_curve(evidence.swaps, "combined", min_clicks=min_clicks),
            harvested_curve(evidence.harvest, positions, form="all_pairs", min_clicks=min_clicks),
            evidence.reached,
        )
    if name == "affine":
        theta_1 = settings.theta_1 or 1.0
        return affine_curve(evidence.trust, positions, beta_1=settings.beta_1, theta_1=theta_1)
    if name == "given":
        return given_curve(evidence.theta, settings.theta_1)
    if evidence.exposures is None:
        raise ValueError("regression_em needs the exposures of documents")
    em = settings.regression_em
    return em_curve(
        evidence.exposures, positions, rounds=em.rounds, trees=em.trees, leaves=em.leaves,
        min_clicks=min_clicks,
    )  # fmt: skip


def swap_curve(
    counts: SwapCounts, estimator: str, *, min_clicks: int, pooled: bool = True
) -> ThetaCurve:
    """Solve the ratios of the estimator's buckets; pooled: use both documents of an exchange."""
    ratios = [
        position_ratios(arms, pooled=pooled)
        for arms in counts.buckets.values()
        if SWAP_BUCKETS[estimator](arms.bucket)
    ]
    if estimator in USE_SHUFFLES and counts.shuffles:
        ratios.append(shuffle_position_ratios(counts))
    nodes = range(1, counts.positions + 1)
    solution = solve_ratios(ratios, nodes, anchor=1, min_support=min_clicks)
    theta = np.full(counts.positions, np.nan)
    covariance = np.full((counts.positions, counts.positions), np.nan)
    index = np.array(solution.nodes) - 1
    theta[index] = np.exp(solution.log_value)
    covariance[np.ix_(index, index)] = solution.covariance
    return make_curve(
        estimator, theta, covariance, np.array([solution.support[p] for p in nodes]),
        solution.reasons, components=solution.components, misfit=(solution.misfit, solution.dof),
    )  # fmt: skip


def given_curve(theta: Sequence[float], theta_1: float | None = None) -> ThetaCurve:
    """Return a curve without errors. theta(1) comes first; values are in (0, 1].

    theta_1: P(position 1 is examined) of a curve that is relative to it.
    """
    values = np.asarray(theta, float)
    if values.ndim != 1 or not values.size or not np.all((values > 0) & (values <= 1)):
        raise UserError(
            f"propensities.given: {list(theta)!r}; give theta(1), theta(2), ... as numbers above 0 "
            "and at most 1, in propensities.given.theta or a JSON file"
        )
    if theta_1 is not None and values[0] < 1:
        raise UserError(
            f"propensities.given begins with theta(1) = {values[0]:g}, so it is not relative to "
            "position 1; leave propensities.theta_1 null"
        )
    n = values.size
    no_error = np.zeros((n, n))
    return ThetaCurve("given", values, no_error, np.zeros(n, np.int64), ["given"] * n, [""] * n)


def theta_of_json(content: Any, name: str) -> list[float]:
    """Return theta from a list or from an object with `theta`, as `ulr propensities` prints it."""
    if isinstance(content, dict):
        content = content.get("theta")
    if not isinstance(content, list) or not all(isinstance(x, int | float) for x in content):
        raise UserError(f"{name}: expected a list of numbers, or an object with a list 'theta'")
    return [float(x) for x in content]
