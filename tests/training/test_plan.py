"""Which biases a plan starts with, and when they are learned."""

from __future__ import annotations

import numpy as np
import pytest

from ulr.training.plan import UNBIASED_LAMBDAMART, TrainPlan


def plan_of(**options) -> TrainPlan:
    return TrainPlan(UNBIASED_LAMBDAMART, 100, {}, **options)


@pytest.mark.parametrize(
    ("bias_rounds", "iterations"), [(3, [1, 2, 3]), (1, [1]), (0, list(range(1, 50)))]
)
def test_biases_are_learned_after_each_of_the_first_iterations(bias_rounds, iterations):
    plan = plan_of(bias_rounds=bias_rounds)
    assert [n for n in range(50) if plan.learns_biases(n)] == iterations


def test_a_fixed_click_bias_implies_the_regularisation_of_the_paper():
    theta = np.array([0.8, 0.4, 0.2])
    fixed = plan_of(theta=theta, bias_regularization=0.5).initial_biases(4)
    assert fixed.regularization == 2
    np.testing.assert_allclose(fixed.t_plus, [1, 0.5, 0.25, 0.25])
    learned = plan_of(bias_regularization=0.5).initial_biases(4)
    assert learned.regularization == 0.5
    assert learned.t_plus.tolist() == [1, 1, 1, 1]


def test_only_unbiased_lambdamart_has_biases():
    assert TrainPlan("joint", 100, {}).initial_biases(4) is None


def test_the_click_model_of_the_pairs_table_is_the_last_candidate_of_auto():
    usual = TrainPlan("auto", 100, {}).candidates
    assert usual[0] == "joint with precision"
    assert TrainPlan("auto", 100, {}, click_model="cascade").candidates == (
        *usual,
        "cascade with precision",
    )
    assert TrainPlan("robust", 100, {}, click_model="cascade").candidates == ("robust",)
