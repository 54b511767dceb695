"""The objective of a linear ranker, one weight per feature (docs/methods.md section 5.3).

L-BFGS minimises the mean loss per unit of pair weight plus l2 |w|^2, w of standardised features.
Every rank runs the same optimizer on the same sums over all ranks. The sums are exact integers, so
the model does not depend on the number of ranks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy  # loads scipy.optimize, which takes 0.3 s, when it is used

from ulr.features.matrix import check_width
from ulr.kernels.layout import PairLists, Ragged, concat_pairs
from ulr.kernels.linear import linear_gradient
from ulr.training.data import RankingData
from ulr.training.objective import Reduce, make_nonnegative
from ulr.training.plan import TrainPlan
from ulr.training.standardize import Standardization

# Sums have this many bits, of the 63 of an integer: the rest is for steps of the line search on
# which the loss is far above its bound at the start.
_SUM_BITS = 46
OnIteration = Callable[[int, float | None], None]
_GRADIENT_TOLERANCE = 1e-6
_LOSS_TOLERANCE = 1e-12


@dataclass(frozen=True)
class LinearData:
    """The rows of a rank. features: float32, rows x width, standardised."""

    features: np.ndarray
    pairs: PairLists


def linear_data(pieces: Iterable[RankingData], standardization: Standardization) -> LinearData:
    """Return the rows of all pieces, standardised. The features of a piece are not kept."""
    features, pairs = [], []
    for piece in pieces:
        width = np.array([piece.features.shape[1]])
        check_width(width, width=standardization.width, name=partial(_first_query, piece))
        features.append(standardization.apply(piece.features))
        pairs.append(PairLists(*(np.array(column) for column in piece.pairs)))
    return LinearData(np.concatenate(features), concat_pairs(pairs))


def _first_query(piece: RankingData, _: int) -> str:
    return f"query {piece.query_ids[0]}"


class LinearProblem:
    """The function to minimise, over the pairs of all ranks."""

    def __init__(self, data: LinearData, plan: TrainPlan, reduce: Reduce) -> None:
        pairs = make_nonnegative(data.pairs) if plan.nonnegative_weights else data.pairs
        self._data = LinearData(data.features, pairs)
        self._loss, self._l2, self._reduce = plan.linear_loss, plan.l2, reduce
        weight = _query_weights(pairs)
        # Integers add exactly, so that all ranks have the same total weight and the same unit.
        bounds = np.ceil(weight) * query_maxima(data)
        totals = np.array([np.rint(weight * 2.0**20).sum(), bounds.sum()], np.int64)
        total, bound = (int(value) for value in reduce(totals))
        self._total, self._unit = total / 2.0**20, sum_unit(bound)

    @property
    def has_weight(self) -> bool:
        """Whether a pair of any rank has a weight."""
        return self._total > 0

    def __call__(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient (float64) at the weights (float64, width)."""
        own = linear_gradient(self._data.features, weights, self._data.pairs, loss=self._loss,
                              unit=self._unit)  # fmt: skip
        sums = self._reduce(own) * (self._unit / self._total)
        penalty = self._l2 * float(np.square(weights).sum())
        return float(sums[0]) + penalty, sums[1:] + 2.0 * self._l2 * weights


def minimize(
    problem: Callable[[np.ndarray], tuple[float, np.ndarray]],
    start: np.ndarray,
    iterations: int,
    on_iteration: OnIteration = lambda iteration, value: None,
) -> np.ndarray:
    """Return the weights (float64) at the minimum, or after the iterations, of L-BFGS."""
    done = 0

    def count(_: np.ndarray) -> None:
        nonlocal done
        done += 1
        on_iteration(done, None)

    found = scipy.optimize.minimize(
        problem, start, jac=True, method="L-BFGS-B", callback=count,
        options={"maxiter": iterations, "gtol": _GRADIENT_TOLERANCE, "ftol": _LOSS_TOLERANCE},
    )  # fmt: skip
    weights: np.ndarray = found.x
    return weights


def sum_unit(bound: float) -> float:
    """Return the power of two that sums are rounded to, given a bound for them."""
    return float(2.0 ** (math.frexp(max(bound, 1.0))[1] - _SUM_BITS))


def query_maxima(data: LinearData) -> np.ndarray:
    """Return an integer above the largest |feature| of each query, float64."""
    rows = np.abs(data.features).max(axis=1)
    largest: np.ndarray = np.ceil(1.0 + np.maximum.reduceat(rows, data.pairs.query_rows[:-1]))
    return largest.astype(np.float64)


def _query_weights(pairs: PairLists) -> np.ndarray:
    """Return the sum of |u| over the pairs of each query, float64, added in their order."""
    per_query = Ragged(pairs.group_pairs[pairs.query_groups])
    size = np.abs(pairs.u_ij, dtype=np.float64) + np.abs(pairs.u_ji, dtype=np.float64)
    return np.bincount(per_query.owner(), size, pairs.queries)
