"""Training of a linear ranker, on pairs or by dual learning, to a model of one tree."""

from __future__ import annotations

import numpy as np

from ulr.errors import UserError
from ulr.models.linear import linear_model_text
from ulr.training.biases import LearnedBiases, PositionLogits
from ulr.training.checkpoint import TrainState
from ulr.training.linear import LinearData, LinearProblem, OnIteration, minimize
from ulr.training.linear_lists import ListProblem, fit_lists
from ulr.training.objective import Reduce
from ulr.training.plan import TrainPlan
from ulr.training.standardize import Standardization


def train_linear(
    data: LinearData,
    plan: TrainPlan,
    standardization: Standardization,
    biases: LearnedBiases | None = None,
    *,
    reduce: Reduce = lambda totals: totals,
    on_iteration: OnIteration = lambda iteration, value: None,
) -> TrainState:
    """Return the final state. biases: before the first iteration, of `dla`."""
    width = standardization.width
    if isinstance(biases, PositionLogits):
        lists = ListProblem(data, biases, plan.l2, reduce)
        _check_weight(lists.has_weight)
        found, biases = fit_lists(lists, plan, width, on_iteration), lists.biases
    else:
        problem = LinearProblem(data, plan, reduce)
        _check_weight(problem.has_weight)
        found = minimize(problem, np.zeros(width), plan.num_iterations, on_iteration)
    weights, constant = standardization.raw_weights(found)
    if not weights.any():
        raise UserError(
            "all weights of the linear ranker are 0: no feature differs between the documents of a "
            "list; give other features, or lower train.l2"
        )
    model = linear_model_text(weights, constant, plan.feature_names)
    return TrainState(num_iterations=1, model=model, biases=biases, finished=True)


def _check_weight(has_weight: bool) -> None:
    if not has_weight:
        raise UserError("no pair has a weight; see counts of `pairs`, or train on more pairs")
