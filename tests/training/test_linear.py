"""Linear rankers: the optimum, the scale of features, and one model for any number of workers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.click_lists import DOCS, WIDTH, clicked_lists, data_of, pairs_of
from tests.support.clicked_pairs import clicked_data, share
from tests.support.in_memory import train_ranker
from tests.support.rendezvous import on_threads
from ulr.errors import UserError
from ulr.kernels.linear import LOSSES
from ulr.models.linear import linear_weights
from ulr.simulate.browsing import power_curve
from ulr.training.biases import PositionLogits
from ulr.training.checkpoint import TrainState
from ulr.training.distributed.communicator import Communicator
from ulr.training.linear import LinearProblem, linear_data
from ulr.training.linear_lists import ListProblem
from ulr.training.linear_ranker import train_linear
from ulr.training.plan import DLA, LINEAR, TrainPlan
from ulr.training.standardize import standardization_of


def plan_of(method="joint", **options) -> TrainPlan:
    return TrainPlan(method, 200, {"num_threads": 1}, ranker=LINEAR, **options)


def test_missing_and_constant_features_are_0_after_standardising():
    sample = np.array([[1.0, 5.0, np.nan], [3.0, 5.0, np.nan], [np.nan, 5.0, np.inf]], np.float32)
    made = standardization_of(sample)
    np.testing.assert_allclose(made.centre, [2, 5, 0])
    np.testing.assert_allclose(made.scale, [1, 1, 1])
    np.testing.assert_array_equal(made.apply(sample), [[-1, 0, 0], [1, 0, 0], [0, 0, 0]])
    weights, constant = replace(made, scale=np.array([2.0, 1.0, 1.0])).raw_weights(np.ones(3))
    np.testing.assert_allclose(weights, [0.5, 1, 1])
    assert constant == -(0.5 * 2 + 5)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_of_the_objective_is_0_at_the_trained_weights(loss):
    data = clicked_data(60)
    plan = plan_of("naive", linear_loss=loss, l2=0.01)
    scale = standardization_of(data.features)
    prepared = linear_data([data], scale)
    raw, _ = linear_weights(train_linear(prepared, plan, scale).model)
    value, gradient = LinearProblem(prepared, plan, lambda totals: totals)(raw * scale.scale)
    assert np.abs(gradient).max() < 1e-5
    assert value < LinearProblem(prepared, plan, lambda totals: totals)(np.zeros(raw.size))[0]


def test_the_objective_is_the_mean_loss_plus_the_penalty():
    data = clicked_data(30)
    prepared = linear_data([data], standardization_of(data.features))
    weights = np.array([0.3, -0.1, 0.0, 0.5, 0.2, -0.7])
    scores = prepared.features.astype(float) @ weights
    pairs, losses = data.pairs, []
    first = np.repeat(pairs.query_rows[:-1], np.diff(pairs.group_pairs))
    margin = scores[first + pairs.i] - scores[first + pairs.j]
    losses = pairs.u_ij * np.log1p(np.exp(-margin)) + pairs.u_ji * np.log1p(np.exp(margin))
    mean = losses.sum() / (pairs.u_ij.sum(dtype=float) + pairs.u_ji.sum(dtype=float))
    value, _ = LinearProblem(prepared, plan_of(l2=0.1), lambda totals: totals)(weights)
    assert value == pytest.approx(mean + 0.1 * np.square(weights).sum(), rel=1e-6)


@pytest.mark.parametrize(
    "plan", [plan_of(linear_loss=loss) for loss in LOSSES] + [plan_of(DLA, bias_rounds=3)],
    ids=[*LOSSES, DLA],
)  # fmt: skip
def test_one_two_and_three_workers_train_byte_identical_models(plan):
    data = clicked_data(50)
    scale, biases = standardization_of(data.features), plan.initial_biases(8)

    def work(communicator: Communicator) -> TrainState:
        part = share(data, communicator.rank, communicator.size)
        with communicator:
            prepared = linear_data([part], scale)
            return train_linear(prepared, plan, scale, biases, reduce=communicator.sum)

    states = [state for workers in (1, 2, 3) for state in on_threads(workers, work)]
    assert len({state.model for state in states}) == 1
    assert states[0].finished
    if biases is not None:
        assert len({state.biases.logits.tobytes() for state in states}) == 1
        assert (states[0].biases.logits[1:] != 0).all()


def test_the_gradient_of_the_lists_is_a_finite_difference_of_their_loss():
    data, rng, step = clicked_data(30), np.random.default_rng(2), 1e-5
    prepared = linear_data([data], standardization_of(data.features))
    logits = PositionLogits(-0.3 * np.arange(6.0), 1.0)  # fewer bins than positions
    problem = ListProblem(prepared, logits, 0.1, lambda totals: totals)
    weights = rng.normal(size=6)
    value, gradient = problem(weights)
    for k in range(6):
        up, down = weights.copy(), weights.copy()
        up[k] += step
        down[k] -= step
        assert gradient[k] == pytest.approx(
            (problem(up)[0] - problem(down)[0]) / 2 / step, abs=1e-6
        )
    # By the definition: every list has the 8 documents of its query.
    bins = np.minimum(data.pairs.position - 1, 5)
    scores = (prepared.features.astype(float) @ weights).reshape(-1, 8)
    share = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    clicks = logits.weights[bins] * data.pairs.clicks
    mean = -(clicks * np.log(share).reshape(-1)).sum() / clicks.sum()
    assert value == pytest.approx(mean + 0.1 * np.square(weights).sum(), rel=1e-6)


def test_dual_learning_finds_the_examination_of_the_clicks():
    x, clicks = clicked_lists(np.random.default_rng(8), 2000, sessions=8)
    ranker = train_ranker(data_of(x, pairs_of(clicks, "naive")), plan_of(DLA))
    learned = ranker.biases.record()["position_bias"]
    np.testing.assert_allclose(learned, power_curve(DOCS, 1.0), rtol=0.15)
    weights = np.abs(linear_weights(ranker.model_text())[0])
    assert weights[0] > 5 * weights[1:].max()


def test_scale_and_shift_of_the_features_do_not_change_the_scores():
    x, clicks = clicked_lists(np.random.default_rng(3), 300, sessions=8)
    pairs = pairs_of(clicks, "robust")
    moved = x * np.array([1000, 1, 0.01, 1, 1], np.float32) + np.float32(3)
    scores = [train_ranker(data_of(at, pairs), plan_of("robust")).predict(at.reshape(-1, WIDTH))
              for at in (x, moved)]  # fmt: skip
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-3)


@pytest.mark.parametrize(("method", "loss"), [("prs", "logistic"), ("ips-all", "hinge")])
def test_the_weight_of_the_relevant_feature_is_the_largest(method, loss):
    x, clicks = clicked_lists(np.random.default_rng(4), 800, sessions=8)
    data = data_of(x, pairs_of(clicks, method))
    steps = []
    ranker = train_ranker(
        data, plan_of(method, linear_loss=loss), on_iteration=lambda *step: steps.append(step)
    )
    weights = np.abs(linear_weights(ranker.model_text())[0])
    assert weights.argmax() == 0
    assert weights[0] > 5 * weights[1:].max()
    assert steps == [(n, None) for n in range(1, len(steps) + 1)]


def test_of_several_weightings_the_first_is_trained():
    x, clicks = clicked_lists(np.random.default_rng(6), 100, sessions=4)
    one, other = (pairs_of(clicks, method) for method in ("joint", "naive"))
    both = one._replace(
        u_ij=np.stack([one.u_ij, other.u_ij], axis=1), u_ji=np.stack([one.u_ji, other.u_ji], axis=1)
    )
    texts = [train_ranker(data_of(x, pairs), plan_of()).model_text() for pairs in (one, both)]
    assert texts[0] == texts[1]


def test_what_cannot_be_trained_is_one_line():
    with pytest.raises(UserError, match="biases of method unbiased-lambdamart are learned with"):
        plan_of("unbiased-lambdamart").learner()
    x, clicks = clicked_lists(np.random.default_rng(5), 20)
    equal = data_of(np.ones_like(x), pairs_of(clicks, "naive"))
    with pytest.raises(UserError, match="all weights of the linear ranker are 0"):
        train_ranker(equal, plan_of("naive"))
    without = equal.pairs._replace(u_ij=0 * equal.pairs.u_ij, u_ji=0 * equal.pairs.u_ji)
    with pytest.raises(UserError, match="no pair has a weight"):
        train_ranker(replace(equal, pairs=without), plan_of("naive"))
    without = equal.pairs._replace(clicks=0 * equal.pairs.clicks)
    with pytest.raises(UserError, match="no pair has a weight"):
        train_ranker(replace(equal, pairs=without), plan_of(DLA))
