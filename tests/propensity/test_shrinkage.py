from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.segment_worlds import (
    LOG_POSITION,
    POSITIONS,
    draw,
    exponents,
    one_outlier,
    repeat,
    steps,
)
from tests.support.swap_lab import SwapLab, click_model, queries, single_buckets
from ulr.propensity.curve import fall_back, make_curve
from ulr.propensity.estimators import swap_curve
from ulr.propensity.shrinkage import own_share, shrink
from ulr.propensity.swap_counts import BucketArms, SwapCounts
from ulr.simulate.browsing import Independent

TRAFFIC = np.array([20_000, 5_000, 1_000, 300])


@pytest.mark.parametrize(
    ("world", "scale"), [(exponents, 0.1), (exponents, 0.3), (one_outlier, 0.5)]
)
def test_shrunk_segments_beat_both_extremes_and_their_intervals_cover(world, scale):
    (own, pooled, shrunk), covered = repeat(world, scale, TRAFFIC, 120)
    assert shrunk < 0.5 * min(own, pooled)
    assert 0.93 <= covered <= 0.97


def test_segments_that_differ_by_steps_beat_both_extremes_too():
    """The prior expects other shapes, so intervals cover a little less than 95%."""
    (own, pooled, shrunk), covered = repeat(steps, 0.3, TRAFFIC, 120)
    assert shrunk < 0.5 * min(own, pooled)
    assert 0.90 <= covered <= 0.97


def test_segments_with_equal_curves_take_nearly_the_estimate_over_all_traffic():
    (own, pooled, shrunk), covered = repeat(exponents, 0.0, TRAFFIC, 120)
    assert shrunk < 1.2 * pooled
    assert shrunk < 0.05 * own
    assert 0.94 <= covered <= 0.98  # wider than needed: they allow for a difference


def test_own_weight_maps_the_two_estimates_to_the_shrunk_one():
    rng = np.random.default_rng(3)
    _, curves, pooled = draw(rng, exponents(rng, len(TRAFFIC), 0.2), TRAFFIC)
    for own, curve in zip(curves, shrink(curves, pooled), strict=True):
        weight = curve.own_weight
        expected = weight @ np.log(own.theta) + (np.eye(POSITIONS) - weight) @ np.log(pooled.theta)
        np.testing.assert_allclose(np.log(curve.theta), expected, atol=1e-12)
        assert curve.theta[0] == 1.0
        assert not curve.covariance[0].any()


def test_more_data_has_more_weight():
    rng = np.random.default_rng(4)
    _, curves, pooled = draw(
        rng, exponents(rng, len(TRAFFIC), 0.2), np.array([9_000, 9_000, 1_000, 100])
    )
    weights = [own_share(c.own_weight)[1:].mean() for c in shrink(curves, pooled)]
    assert weights[1] > weights[2] > weights[3]
    assert weights[3] < 0.9


def test_a_position_without_an_own_estimate_follows_the_others_of_its_segment():
    """All segments but one have theta = 1 / k; its own positions say k^-1.5."""
    flat = np.zeros((4, POSITIONS))
    flat[3] = -0.5 * LOG_POSITION
    traffic = np.array([20_000, 20_000, 20_000, 20_000])
    truth, curves, pooled = draw(np.random.default_rng(5), flat, traffic)
    thin = make_curve(
        "combined", curves[3].theta, curves[3].covariance, curves[3].support, {9: "few", 10: "few"}
    )  # fmt: skip
    curve = shrink([*curves[:3], thin], pooled)[3]
    assert curve.source == ["estimated"] * 8 + ["pooled"] * 2
    assert curve.note[8].startswith("estimate over all traffic and this segment's other positions")
    assert curve.note[8].endswith("this position: few")
    np.testing.assert_allclose(np.log(curve.theta[1:]), truth[3], atol=0.25)
    assert np.log(pooled.theta[9]) - truth[3, 8] > 0.25
    assert np.all(np.diff(curve.standard_error[7:] / curve.theta[7:]) > 0)


def test_a_position_without_any_estimate_stays_without():
    _, curves, pooled = draw(np.random.default_rng(6), np.zeros((2, POSITIONS)), TRAFFIC[:2])
    lost = [
        make_curve("combined", c.theta, c.covariance, c.support, {10: "no clicks"})
        for c in (*curves, pooled)
    ]
    curve = shrink(lost[:2], lost[2])[0]
    assert np.isnan(curve.theta[9])
    assert curve.source[9] == "insufficient"
    assert not np.isnan(curve.theta[:9]).any()


def test_the_only_segment_is_all_traffic_and_one_without_data_is_uncertain():
    _, (own,), pooled = draw(np.random.default_rng(7), np.zeros((1, POSITIONS)), TRAFFIC[:1])
    (only,) = shrink([own], pooled)
    np.testing.assert_allclose(only.theta, pooled.theta)
    np.testing.assert_allclose(only.covariance, pooled.covariance)
    nothing = make_curve(
        "combined", own.theta, own.covariance, np.zeros(POSITIONS, int),
        dict.fromkeys(range(2, POSITIONS + 1), "no clicks"),
    )  # fmt: skip
    empty = shrink([own, nothing], pooled)[1]
    np.testing.assert_allclose(empty.theta, pooled.theta)
    assert np.all(empty.standard_error[1:] > 2 * pooled.standard_error[1:])
    assert set(empty.source[1:]) == {"pooled"}


def test_swap_experiments_of_two_segments_are_shrunk_by_their_counts():
    rng = np.random.default_rng(8)
    relevance = queries(np.random.default_rng(1), 12, POSITIONS)
    labs = [
        SwapLab(
            click_model(Independent(np.exp(-eta * LOG_POSITION)), POSITIONS),
            relevance, single_buckets(POSITIONS),
        )
        for eta in (1.0, 1.3)
    ]  # fmt: skip
    errors = []
    for _ in range(10):
        counts = [lab.draw(rng, n) for lab, n in zip(labs, (200_000, 30_000), strict=True)]
        pooled, *own = (swap_curve(c, "combined", min_clicks=50) for c in (add(*counts), *counts))
        curve = shrink(own, pooled)[1]
        filled = fall_back(own[1], pooled)
        errors.append([np.log(c.theta / labs[1].theta)[1:] for c in (filled, pooled, curve)])
    squares = np.mean(np.square(errors), axis=(0, 2))
    assert squares[2] < 0.6 * squares[0]
    assert squares[2] < 0.6 * squares[1]


def add(one: SwapCounts, two: SwapCounts) -> SwapCounts:
    return SwapCounts(
        one.positions,
        {
            name: BucketArms(a.bucket, a.kept + b.kept, a.swapped + b.swapped)
            for (name, a), b in zip(one.buckets.items(), two.buckets.values(), strict=True)
        },
    )


def test_a_jackknife_covariance_without_full_rank_can_be_used():
    """The covariance of a jackknife over 5 blocks has rank 4 in 9 positions."""
    rng = np.random.default_rng(9)
    errors = []
    for _ in range(20):
        truth, curves, pooled = draw(rng, exponents(rng, len(TRAFFIC), 0.2), TRAFFIC)
        few = [replace(c, covariance=of_few_blocks(rng, c.covariance), dof=4.0) for c in curves]
        for row, own, curve in zip(truth, few, shrink(few, pooled), strict=True):
            assert curve.dof == 4.0
            errors.append([np.mean((np.log(c.theta[1:]) - row) ** 2) for c in (own, pooled, curve)])
    own, pooled, shrunk = np.mean(errors, axis=0)
    assert shrunk < 0.7 * min(own, pooled)


def of_few_blocks(rng, covariance):
    root = np.sqrt(np.diag(covariance))[:, None]
    sample = root * rng.normal(size=(POSITIONS, 4)) / 2
    return sample @ sample.T
