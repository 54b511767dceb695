from __future__ import annotations

import numpy as np
import pytest

from ulr.propensity.curve import make_curve
from ulr.propensity.extension import EXTENDED, extend_curve

K = 6
TRUTH = np.log(1 / np.arange(1.0, K + 1))


def curve_of(log_theta, covariance, missing=(), **more):
    return make_curve(
        "any", np.exp(log_theta), covariance, np.full(len(log_theta), 70),
        dict.fromkeys(missing, "31 clicks, 50 needed"), **more,
    )  # fmt: skip


def covariance_of(rng, scale=0.1):
    """A covariance of log theta with theta(1) = 1."""
    half = rng.normal(size=(K, 2 * K)) * scale
    half[0] = 0
    return half @ half.T


def test_swaps_are_kept_and_rank_changes_follow_from_the_nearest_shared_position():
    rng = np.random.default_rng(1)
    swaps = curve_of(TRUTH, covariance_of(rng), missing=(3, 5, 6))
    harvest = curve_of(1.5 * TRUTH, covariance_of(rng), missing=(6,), dof=31)
    curve = extend_curve(swaps, harvest, [1, 2, 4])
    assert curve.estimator == EXTENDED
    expected = TRUTH.copy()
    expected[2] = TRUTH[1] + 1.5 * (TRUTH[2] - TRUTH[1])  # from position 2
    expected[4] = TRUTH[3] + 1.5 * (TRUTH[4] - TRUTH[3])  # from position 4
    expected[5] = np.nan
    np.testing.assert_allclose(np.log(curve.theta), expected)
    names = ["estimated"] * 2 + ["harvested", "estimated", "harvested", "insufficient"]
    assert curve.source == names
    assert curve.note[4].startswith("from rank changes relative to position 4; swaps: 31 clicks")
    assert curve.dof == 31
    assert curve.components == [[1, 2, 3, 4, 5]]


def test_the_covariance_is_that_of_the_draws_of_both_curves():
    rng = np.random.default_rng(2)
    of_swaps, of_harvest = covariance_of(rng), covariance_of(rng)
    missing = (3, 5)
    curve = extend_curve(
        curve_of(TRUTH, of_swaps, missing=missing), curve_of(TRUTH, of_harvest), [1, 2, 4, 6]
    )
    draws = []
    for s, h in zip(
        rng.multivariate_normal(TRUTH, of_swaps, 4000),
        rng.multivariate_normal(TRUTH, of_harvest, 4000),
        strict=True,
    ):
        own = extend_curve(
            curve_of(s, of_swaps, missing=missing), curve_of(h, of_harvest), [1, 2, 4, 6]
        )
        draws.append(np.log(own.theta))
    error = np.sqrt(np.diag(curve.covariance))[1:]
    np.testing.assert_allclose(np.std(draws, axis=0)[1:], error, rtol=0.1)
    np.testing.assert_allclose(np.cov(np.transpose(draws)), curve.covariance, atol=0.01)


def test_a_segment_has_no_estimate_where_only_all_traffic_has_enough_swaps():
    """Its value follows from all traffic, not from rank changes."""
    rng = np.random.default_rng(3)
    own = curve_of(TRUTH, covariance_of(rng), missing=(2, 4, 5, 6))
    harvest = curve_of(TRUTH, covariance_of(rng))
    curve = extend_curve(own, harvest, [1, 2, 3])
    assert curve.source == ["estimated", "insufficient", "estimated", *["harvested"] * 3]
    assert np.isnan(curve.covariance[1]).all()


def test_components_that_rank_changes_do_not_link_are_kept():
    swaps = curve_of(TRUTH, np.eye(K) * 0.01, missing=(3, 4, 5, 6), components=[[1, 2], [4, 5]])
    harvest = curve_of(TRUTH, np.eye(K) * 0.01, missing=(4, 5, 6))
    assert extend_curve(swaps, harvest, [1, 2]).components == [[1, 2, 3], [4, 5]]
    linked = curve_of(TRUTH, np.eye(K) * 0.01)
    assert extend_curve(swaps, linked, [1, 2]).components == [[1, 2, 3, 4, 5, 6]]


@pytest.mark.parametrize("bias", [1.0, 1.5])
def test_a_bias_of_rank_changes_counts_from_the_last_position_of_the_swaps(bias):
    swaps = curve_of(TRUTH, np.eye(K) * 1e-6, missing=(6,))
    harvest = curve_of(bias * TRUTH, np.eye(K) * 1e-6)
    error = np.log(extend_curve(swaps, harvest, [1, 2, 3, 4, 5]).theta) - TRUTH
    assert error[5] == pytest.approx((bias - 1) * (TRUTH[5] - TRUTH[4]))
