"""Loss and gradient of a linear ranker: plain loops, finite differences, order and threads."""

import math

import numpy as np
import pytest

from tests.support.pair_samples import group_lists, random_pairs
from ulr.kernels import threads
from ulr.kernels.layout import concat_pairs
from ulr.kernels.linear import LOSSES, SMOOTH, linear_gradient, pair_loss_at

UNIT = 2.0**-30
WIDTH = 3


def sample(seed, queries=8):
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, queries=queries)
    return rng.normal(size=(pairs.rows, WIDTH)).astype(np.float32), pairs


def plain_loss(features, weights, pairs, loss):
    """The sum over all pairs, by the definition of the loss."""
    scores, total = features.astype(float) @ weights, 0.0
    for rows, _, listed in group_lists(pairs):
        for i, j, u_ij, u_ji in listed:
            for u, margin in ((u_ij, scores[rows[i]] - scores[rows[j]]),
                              (u_ji, scores[rows[j]] - scores[rows[i]])):  # fmt: skip
                short = max(0.0, 1 - margin)
                hinge = short**2 / (2 * SMOOTH) if short < SMOOTH else short - SMOOTH / 2
                total += u * (math.log(1 + math.exp(-margin)) if loss == "logistic" else hinge)
    return total


@pytest.mark.parametrize("loss", LOSSES)
def test_loss_and_gradient_equal_the_plain_loop_and_its_finite_differences(loss):
    features, pairs = sample(1)
    weights, step = np.array([0.7, -0.4, 0.2]), 1e-6
    value, *gradient = linear_gradient(features, weights, pairs, loss=loss, unit=UNIT) * UNIT
    assert value == pytest.approx(plain_loss(features, weights, pairs, loss), rel=1e-7)
    for k in range(WIDTH):
        up, down = weights.copy(), weights.copy()
        up[k] += step
        down[k] -= step
        losses = [plain_loss(features, at, pairs, loss) for at in (up, down)]
        assert gradient[k] == pytest.approx((losses[0] - losses[1]) / (2 * step), abs=1e-3)


def test_the_smoothed_hinge_differs_from_the_hinge_by_half_its_width_at_most():
    for margin in (-3.0, 0.0, 1 - SMOOTH, 1 - SMOOTH / 2, 1.0, 4.0):
        loss, slope = pair_loss_at(margin, True)
        assert 0 <= max(0.0, 1 - margin) - loss <= SMOOTH / 2 + 1e-12
        assert -1 <= slope <= 0
    assert pair_loss_at(1 - SMOOTH / 2, True) == pytest.approx((SMOOTH / 8, -0.5))


@pytest.mark.parametrize("margin", [-1e9, -750.0, 750.0, 1e9])
def test_extreme_margins_give_finite_losses(margin):
    for hinge in (False, True):
        assert np.isfinite(pair_loss_at(margin, hinge)).all()


def test_neither_threads_nor_a_split_into_parts_changes_a_bit(monkeypatch):
    monkeypatch.setattr(threads, "MIN_COST", 1.0)
    weights = np.array([0.3, 0.2, -1.0])
    parts = [sample(seed) for seed in (2, 3, 4)]
    apart = sum(linear_gradient(x, weights, p, loss="logistic", unit=UNIT) for x, p in parts)
    features = np.concatenate([x for x, _ in parts])
    pairs = concat_pairs([p for _, p in parts])
    for count in (1, 0):
        threads.use_threads(count)
        joined = linear_gradient(features, weights, pairs, loss="logistic", unit=UNIT)
        np.testing.assert_array_equal(joined, apart)
