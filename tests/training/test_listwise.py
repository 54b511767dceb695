"""`dla`: learned logits, and one model for any number of workers."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.click_lists import DOCS, clicked_lists, data_of, pairs_of
from tests.support.in_memory import train_ranker
from tests.training.test_loop import plan_of, train_on
from ulr.simulate.browsing import power_curve
from ulr.training.biases import MAX_STEP, PositionLogits, initial_logits
from ulr.training.checkpoint import TrainState, state_from_json
from ulr.training.listwise import ListObjective
from ulr.training.objective import GRID
from ulr.training.plan import DLA, TrainPlan

SETTINGS = {"num_leaves": 8, "learning_rate": 0.1, "min_data_in_leaf": 1, "num_threads": 1,
            "min_sum_hessian_in_leaf": 0.5, "seed": 1}  # fmt: skip


def test_a_step_is_a_fraction_of_newtons():
    start = PositionLogits(np.array([0.0, -1.0, -2.0, -2.0]), 0.5)
    sums = np.array([[2.0, -3.0, 0.0, -9.0], [8.0, 4.0, 0.0, 3.0]])
    new = start.updated(sums)
    # The third bin has no list, and the step of the fourth, 0.5 * 9 / 3, is cut.
    np.testing.assert_allclose(new.logits, [-0.125, -0.625, -2.0, -2.0 + MAX_STEP])
    np.testing.assert_allclose(start.weights, np.exp([0.0, 1.0, 2.0, 2.0]))


def test_with_equal_scores_the_logits_become_those_of_the_click_rates():
    _, clicks = clicked_lists(np.random.default_rng(3), 300, sessions=20)
    pairs = pairs_of(clicks, "naive")
    objective = ListObjective(pairs, initial_logits(DOCS, 1.0))
    for _ in range(60):
        objective.learn_biases(np.zeros(pairs.rows))
    rates = clicks.sum(axis=(0, 1)) / clicks[:, :, 0].sum()
    np.testing.assert_allclose(1 / objective.biases.weights, rates, rtol=1e-6)


def test_gradients_are_on_the_grid_and_sum_to_zero_in_every_list():
    _, clicks = clicked_lists(np.random.default_rng(6), 30, sessions=6)
    objective = ListObjective(pairs_of(clicks, "naive"), initial_logits(DOCS, 0.05))
    gradient, hessian = objective.fill(np.random.default_rng(6).normal(size=30 * DOCS))
    for values in (gradient, hessian):
        steps = values.astype(float) / GRID
        assert values.dtype == np.float32
        assert (steps == np.rint(steps)).all()
    totals = gradient.astype(float).reshape(30, DOCS).sum(axis=1)
    np.testing.assert_allclose(totals, 0, atol=DOCS * GRID)


def test_one_two_and_three_workers_and_a_resumed_run_have_the_same_model_and_logits():
    plan = plan_of(num_iterations=8, checkpoint_every=3)
    start = TrainState(biases=initial_logits(DOCS, 0.05))
    (end,), saved = train_on(1, plan, start)
    text = json.dumps(saved[0].as_json())
    resumed = state_from_json(json.loads(text), initial_logits(DOCS, 0.05))
    assert (end.biases.logits[1:] != 0).all()
    for workers, state in ((2, start), (3, start), (3, resumed)):
        for other in train_on(workers, plan, state)[0]:
            assert other.model == end.model
            assert other.biases.logits.tobytes() == end.biases.logits.tobytes()


@pytest.mark.parametrize("bias_rounds", [0, 20])
def test_learned_position_bias_falls_with_position(bias_rounds):
    x, clicks = clicked_lists(np.random.default_rng(10), 400, sessions=16)
    data = data_of(x, pairs_of(clicks, "naive"))
    plan = TrainPlan(DLA, 30, SETTINGS, bias_rounds=bias_rounds)
    learned = train_ranker(data, plan).biases.record()["position_bias"]
    assert learned[0] == 1
    # Towards theta, from 1; a step of 0.05 has not arrived there.
    assert power_curve(DOCS, 1.0)[5] - 0.05 < learned[5] < learned[2] < learned[1] < 1
