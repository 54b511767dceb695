"""Decisions from block losses: smoothing, tolerance, fewest iterations."""

import numpy as np
import pytest

from ulr.training.stopping import (
    MIN_ITERATIONS,
    WINDOW,
    as_losses,
    best_iteration,
    is_lower,
    lowest_iteration,
    smooth,
    standard_error,
    trees_for,
)

BLOCKS = 8


def curve(values, noise=0.0, seed=1):
    """Losses of blocks whose sums are the given values; the noise differs by block, not in sum."""
    values = np.array(values, float)
    own = np.random.default_rng(seed).normal(size=(len(values), BLOCKS))
    own -= own.mean(axis=1, keepdims=True)
    return values[:, None] / BLOCKS + noise * own


def test_smoothing_is_a_trailing_mean():
    values = np.arange(12.0) ** 2
    want = [np.mean(values[max(0, t - WINDOW + 1) : t + 1]) for t in range(12)]
    np.testing.assert_allclose(smooth(values), want)
    np.testing.assert_allclose(smooth(curve(values)).sum(axis=1), want)


def test_the_lowest_loss_is_sought_from_the_fewest_iterations_on():
    assert lowest_iteration(np.arange(60.0)) == MIN_ITERATIONS
    assert lowest_iteration(-np.arange(60.0)) == 60
    assert lowest_iteration(np.arange(5.0)) == 5  # all that there are


def test_without_noise_the_lowest_loss_is_kept():
    values = np.abs(np.arange(1, 81) - 50.0)
    # The trailing mean of |t - 50| is lowest where its window is centred: at 50 + (WINDOW - 1) / 2.
    assert best_iteration(curve(values)) == 50 + (WINDOW - 1) // 2


def test_fewer_trees_are_kept_if_their_loss_is_within_the_tolerance():
    values = 1 - np.arange(100) * 1e-6  # falls by next to nothing
    assert best_iteration(curve(values)) == 100
    assert best_iteration(curve(values, noise=1.0)) == MIN_ITERATIONS


def test_the_standard_error_is_that_of_a_sum_of_independent_blocks():
    differences = np.array([1.0, 3.0, 5.0, 7.0])
    # Variance of a block 20 / 3, of the sum of four 80 / 3.
    assert standard_error(differences) == pytest.approx(np.sqrt(80 / 3))


def test_a_higher_metric_is_a_lower_loss():
    assert as_losses([[1, 2], [3, 4]], higher=True).tolist() == [[-1, -2], [-3, -4]]
    assert as_losses([1.5, 2.5], higher=False).tolist() == [1.5, 2.5]


def test_a_loss_is_lower_only_beyond_its_standard_error():
    other = np.zeros(BLOCKS)
    losses = np.tile([-3.0, 1.0], BLOCKS // 2)  # sum -8, variance of a block 32 / 7
    error = np.sqrt(BLOCKS * 32 / 7)
    assert standard_error(losses) == pytest.approx(error)
    assert is_lower(losses, other, 0.99 * 8 / error)
    assert not is_lower(losses, other, 1.01 * 8 / error)
    assert not is_lower(other, losses, 0.0)


def test_trees_add_up_to_a_shrinkage():
    assert trees_for(5.0, 0.05) == 100
    assert trees_for(2.5, 0.1) == 25
