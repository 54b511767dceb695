"""The covariance of the propensities: published, read, and against the spread of estimates."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.swap_lab import SwapLab, click_model, queries, single_buckets
from ulr.config.load import load_settings
from ulr.propensity.affine import Regression, affine_curve
from ulr.propensity.browsing import BrowsingFit
from ulr.propensity.covariance import affine_covariance, log_theta_covariance
from ulr.propensity.curve import fall_back
from ulr.propensity.estimators import Evidence, given_curve, swap_curve
from ulr.propensity.examination import examination_of
from ulr.propensity.segments import SegmentResult, estimate_segments
from ulr.propensity.swap_counts import Arm, BucketArms, SwapCounts
from ulr.propensity.tables import curve_table, joint_table
from ulr.simulate.browsing import Independent

K = 4
SETTINGS = load_settings(None).propensities.model_copy(
    update={"estimator": "combined", "browsing_model": "independent"}
)
LAB = SwapLab(
    click_model(Independent(1 / np.arange(1.0, K + 1)), K),
    queries(np.random.default_rng(1), 12, K),
    single_buckets(K),
)


def published(results):
    return curve_table(results), joint_table(results)


def test_the_covariance_of_all_traffic_and_a_segment_is_read_back():
    rng = np.random.default_rng(2)
    counts = LAB.draw(rng, 60_000), LAB.draw(rng, 30_000)
    pooled, own = estimate_segments(Evidence(counts[0]), {"s": Evidence(counts[1])}, SETTINGS)
    examination, by_segment = examination_of(*published([pooled, own]))
    errors = examination.errors
    assert by_segment["s"].errors is None
    c, s = pooled.curve.covariance, own.curve.covariance
    np.testing.assert_allclose(errors.covariance[0, :, 0], c)
    np.testing.assert_allclose(errors.covariance[1, :, 1], s)
    np.testing.assert_allclose(errors.covariance[0, :, 1], c)  # all traffic contains the segment
    # (1, 2) is theta(2). (1, 3) and (1, 4) were projected onto theta(3) and theta(4).
    # (2, 3), (2, 4) and (3, 4) are estimated relative to (1, 2).
    assert ["projected" in pair.note for pair in pooled.pairs] == [False, True, True, *[False] * 3]
    theta_of = [1, 2, 3, 1, 1, 1]
    np.testing.assert_array_equal(errors.psi_slope[0], np.eye(K)[theta_of])
    got, kept = errors.psi_covariance[0], [3, 4, 5]
    np.testing.assert_allclose(got[np.ix_(kept, kept)], pooled.pair_covariance[3:, 3:])
    assert not got[:3].any()
    for n in kept:
        assert pooled.pairs[n].log_error ** 2 == pytest.approx(got[n, n] + c[1, 1])


def test_an_imputed_psi_has_the_slopes_of_its_model():
    few = SETTINGS.model_copy(update={"min_coclicks": 10**9})
    counts = LAB.draw(np.random.default_rng(3), 60_000)
    for model, row in (("independent", [0, 1, 0, 1]), ("continuous", [0, 0, 0, 1])):
        settings = few.model_copy(update={"browsing_model": model})
        result = estimate_segments(Evidence(counts), {}, settings)[0]
        errors = examination_of(*published([result]))[0].errors
        np.testing.assert_array_equal(errors.psi_slope[0][4], row)  # (2, 4)
        assert not errors.psi_covariance.any()


def test_tables_without_errors_or_from_before_them_are_read():
    curve, browsing = given_curve([1.0, 0.5]), BrowsingFit("independent", np.zeros((0, 0)))
    result = SegmentResult(None, curve, curve, [], browsing, [], [], np.zeros((0, 0)))
    theta, psi = curve_table([result]), joint_table([])
    assert theta["covariance"].null_count == 2
    for table in (theta, theta.drop_columns(["covariance", "beta_covariance"])):
        examination, _ = examination_of(table, psi.drop_columns(["covariance"]))
        assert examination.errors is None
        assert examination.theta.tolist() == [1.0, 0.5]


def add(a: SwapCounts, b: SwapCounts) -> SwapCounts:
    def both(one: Arm, two: Arm) -> Arm:
        conditional = {k: one.conditional[k] + two.conditional[k] for k in one.conditional}
        return Arm(one.sessions + two.sessions, one.co_clicks + two.co_clicks, conditional)

    arms = {
        name: BucketArms(
            own.bucket,
            both(own.kept, b.buckets[name].kept),
            both(own.swapped, b.buckets[name].swapped),
        )
        for name, own in a.buckets.items()
    }
    return SwapCounts(a.positions, arms)


def test_the_covariance_between_a_segment_and_all_traffic_is_the_spread_of_estimates():
    """The segment has a third of the traffic; below position 2 it takes the value of all."""
    rng, estimates, covariances = np.random.default_rng(4), [], []
    for _ in range(400):
        part, rest = LAB.draw(rng, 10_000), LAB.draw(rng, 20_000)
        own = swap_curve(part, "combined", min_clicks=1)
        theta = np.where(np.arange(K) > 1, np.nan, own.theta)
        covariance = np.where(np.isnan(theta) | np.isnan(theta[:, None]), np.nan, own.covariance)
        pooled = swap_curve(add(part, rest), "combined", min_clicks=1)
        segment = fall_back(replace(own, theta=theta, covariance=covariance), pooled)
        estimates.append(np.log(np.concatenate([pooled.theta, segment.theta])))
        covariances.append(log_theta_covariance([pooled, segment]))
    got, want = np.mean(covariances, axis=0), np.cov(np.array(estimates), rowvar=False)
    scale = np.sqrt(np.outer(np.diag(got), np.diag(got))).clip(1e-9)
    np.testing.assert_allclose(got / scale, want / scale, atol=0.2)
    assert got[4 + 2, 2] == pytest.approx(got[2, 2])  # both are the estimate over all traffic
    assert got[4 + 1, 2] == pytest.approx(got[1, 2])


def test_alpha_and_beta_have_a_joint_covariance():
    fits = [Regression(2, 900, 0.5, 0.02, 0.0, 0.01, 0.004, 0.0, covariance=-0.00003)]
    curve = affine_curve(fits, 2, beta_1=0.1)
    got = affine_covariance([curve])  # log theta(1), log theta(2), beta(1), beta(2)
    assert got.shape == (4, 4)
    assert got[1, 1] == pytest.approx((0.01 / 0.5) ** 2)
    assert got[3, 3] == pytest.approx(0.004**2 - 2 * 0.1 * 0.00003 + (0.1 * 0.01) ** 2)
    assert got[1, 3] == pytest.approx((-0.00003 + 0.1 * 0.01**2) / 0.5)
    assert not got[[0, 2]].any()
    settings = SETTINGS.model_copy(update={"estimator": "affine", "beta_1": 0.1})
    result = estimate_segments(Evidence(SwapCounts(2), trust=fits), {}, settings)[0]
    errors = examination_of(*published([result]))[0].errors
    np.testing.assert_allclose(errors.covariance.reshape(4, 4), got)
