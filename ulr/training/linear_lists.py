"""Dual learning with a linear ranker: weights of features and logits of positions in turns.

Given the logits, L-BFGS minimises the mean softmax loss of the lists plus l2 |w|^2; given the
weights, the logits take a Newton step (docs/methods.md sections 5.3 and 6.1).
"""

from __future__ import annotations

import numpy as np

from ulr.kernels.linear import feature_sums, linear_scores
from ulr.kernels.listwise import list_gradients, list_loss, position_gradients
from ulr.training.biases import PositionLogits
from ulr.training.linear import LinearData, OnIteration, minimize, query_maxima, sum_unit
from ulr.training.objective import Reduce
from ulr.training.plan import TrainPlan

_ITERATIONS = 10  # of L-BFGS between two steps of the logits
_UNITS = 2.0**20  # of a click, in integer sums


class ListProblem:
    """The function of the weights to minimise, over the lists of all ranks."""

    def __init__(self, data: LinearData, biases: PositionLogits, l2: float, reduce: Reduce) -> None:
        self.biases = biases
        self._data, self._l2, self._reduce = data, l2, reduce
        pairs, bins = data.pairs, biases.logits.size
        # Integers add exactly, so that all ranks have the same totals and the same unit.
        position = np.minimum(pairs.position - 1, bins - 1)
        clicks = np.bincount(position, np.rint(pairs.clicks * _UNITS), bins)
        lists = np.repeat(np.arange(pairs.queries), np.diff(pairs.group_docs[pairs.query_groups]))
        bounds = np.ceil(np.bincount(lists, pairs.clicks, pairs.queries)) * query_maxima(data)
        totals = reduce(np.append(clicks, bounds.sum()).astype(np.int64))
        self._clicks, self._bound = totals[:-1] / _UNITS, int(totals[-1])
        self._slopes, self._curves = np.zeros(pairs.rows), np.zeros(pairs.rows)

    @property
    def has_weight(self) -> bool:
        """Whether a list of any rank has a click."""
        return bool(self._clicks.any())

    def __call__(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient (float64) at the weights (float64, width)."""
        features, pairs = self._data.features, self._data.pairs
        of_clicks = self.biases.weights
        unit = sum_unit(self._bound * float(of_clicks.max()))
        scores = linear_scores(features, weights)
        list_gradients(scores, pairs, of_clicks, self._slopes, self._curves, grid=unit)
        loss = list_loss(scores, pairs, of_clicks, unit=unit)
        gradient = feature_sums(features, self._slopes, pairs.query_rows, unit)
        mean = unit / float(np.sum(self._clicks * of_clicks))
        sums = self._reduce(np.append(np.int64(loss), gradient)) * mean
        penalty = self._l2 * float(np.square(weights).sum())
        return float(sums[0]) + penalty, sums[1:] + 2.0 * self._l2 * weights

    def learn_biases(self, weights: np.ndarray) -> None:
        """Update the logits from the gradients of all data at the weights."""
        scores = linear_scores(self._data.features, weights)
        sums = position_gradients(scores, self._data.pairs, self.biases.logits)
        self.biases = self.biases.updated(self._reduce(sums))


def fit_lists(
    problem: ListProblem, plan: TrainPlan, width: int, on_iteration: OnIteration
) -> np.ndarray:
    """Return the weights (float64) after `bias_rounds` turns and a last one without a limit.

    The biases that were learned are those of the problem. on_iteration: after each turn.
    """
    weights = np.zeros(width)
    rounds = plan.bias_rounds or plan.num_iterations
    for number in range(1, rounds + 1):
        weights = minimize(problem, weights, _ITERATIONS)
        problem.learn_biases(weights)
        on_iteration(number, None)
    return minimize(problem, weights, plan.num_iterations)
