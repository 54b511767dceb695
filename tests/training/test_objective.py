from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.support import oracle_pairs as oracle
from tests.support.click_lists import DOCS, clicked_lists, pairs_of
from tests.support.pair_samples import independent_propensities
from ulr.kernels.lambdas import lambda_gradients
from ulr.kernels.pair_runs import pair_runs
from ulr.simulate.browsing import power_curve
from ulr.training.biases import Biases
from ulr.training.objective import (
    GRID,
    LambdaOptions,
    PairObjective,
    grid_step,
    make_nonnegative,
)


@pytest.mark.parametrize("method", ["naive", "robust", "joint"])
def test_the_aggregated_gradient_is_the_sum_over_sessions(method):
    rng = np.random.default_rng(3)
    _, clicks = clicked_lists(rng, 5, sessions=40)
    pairs = pairs_of(clicks, method)
    scores = rng.normal(size=pairs.rows)
    grad, hess = np.zeros(pairs.rows), np.zeros(pairs.rows)
    lambda_gradients(scores, pair_runs(pairs), grad, hess)
    theta = power_curve(DOCS, 1.0)
    psi = independent_propensities(theta).psi
    places = list(itertools.combinations(range(DOCS), 2))
    for q, sessions in enumerate(clicks):
        rows = slice(q * DOCS, (q + 1) * DOCS)
        want, weights = np.zeros(DOCS), np.zeros((DOCS, DOCS))
        for bits in sessions:
            u = oracle.session_weights(bits, theta, psi, method)
            listed = [(i, j, u[i][j], u[j][i]) for i, j in places]
            want += oracle.lambda_gradient(scores[rows].tolist(), listed)[0]
            weights += u
        np.testing.assert_allclose(grad[rows], want, rtol=1e-5, atol=1e-5)
        # The Hessian takes max(u, 0) of the sum, not of each session.
        summed = [(i, j, weights[i][j], weights[j][i]) for i, j in places]
        curve = oracle.lambda_gradient(scores[rows].tolist(), summed)[1]
        np.testing.assert_allclose(hess[rows], curve, rtol=1e-5, atol=1e-5)


def test_make_nonnegative_keeps_the_difference_of_the_two_weights():
    _, clicks = clicked_lists(np.random.default_rng(12), 40, sessions=10)
    plain = pairs_of(clicks, "joint")
    fixed = make_nonnegative(plain)
    assert min(plain.u_ij.min(), plain.u_ji.min()) < 0
    assert min(fixed.u_ij.min(), fixed.u_ji.min()) >= 0
    np.testing.assert_allclose(fixed.u_ij - fixed.u_ji, plain.u_ij - plain.u_ji, atol=1e-3)
    sound = np.minimum(plain.u_ij, plain.u_ji) >= 0
    np.testing.assert_array_equal(fixed.u_ij[sound], plain.u_ij[sound])


def test_gradients_handed_to_lightgbm_are_on_the_grid():
    _, clicks = clicked_lists(np.random.default_rng(6), 30, sessions=6)
    objective = PairObjective(pairs_of(clicks, "joint"), LambdaOptions())
    for values in objective.fill(np.random.default_rng(6).normal(size=30 * DOCS)):
        steps = values.astype(float) / GRID
        assert values.dtype == np.float32
        assert (steps == np.rint(steps)).all()


def test_the_grid_is_as_fine_as_exact_sums_allow():
    assert grid_step(2.0**32) == GRID
    for bound in (1.5 * 2.0**33, 2.0**50):
        assert bound / 2 < grid_step(bound) * 2.0**52 <= bound < grid_step(bound) * 2.0**53


def test_biases_follow_the_losses_and_a_bin_without_loss_keeps_its_value():
    losses = np.array([[8.0, 2.0, 0.0], [4.0, 1.0, 0.25]])
    start = Biases(np.ones(3), np.ones(3), regularization=1)
    new = start.updated(losses)
    np.testing.assert_allclose(new.t_plus, [1, (2 / 8) ** 0.5, 1])
    np.testing.assert_allclose(new.t_minus, [1, (1 / 4) ** 0.5, (0.25 / 4) ** 0.5])
    plain = Biases(np.ones(3), np.ones(3), regularization=0).updated(losses)
    np.testing.assert_allclose(plain.t_minus, [1, 1 / 4, 1 / 16])
    half = Biases(np.ones(3), np.ones(3), regularization=0.5).updated(losses)
    np.testing.assert_allclose(half.t_minus, [1, (1 / 4) ** (2 / 3), (1 / 16) ** (2 / 3)])


def test_an_unclick_bias_above_two_is_a_warning():
    rising = np.array([1.0, 2.0, 2.51, 2.2])
    (line,) = Biases(np.ones(4), rising, regularization=0.0).warnings()
    assert line.startswith("t- of position 3 is 2.51, above 2:")
    assert Biases(rising, np.array([1.0, 2.0, 0.3, 0.1]), regularization=0.0).warnings() == []
