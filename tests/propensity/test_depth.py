"""theta of positions without an estimate (docs/methods.md section 3.11)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.swap_lab import SwapLab, click_model, queries
from ulr.config.load import load_settings
from ulr.propensity.browsing import BrowsingFit, psi_by_theta, row_skipping_psi
from ulr.propensity.curve import ThetaCurve, make_curve
from ulr.propensity.curve_checks import position_ranges
from ulr.propensity.depth import (
    LAMBDA_SD,
    WALK_VARIANCE,
    extend_psi,
    impute_theta,
    least_theta,
)
from ulr.propensity.estimators import Evidence
from ulr.propensity.examination import examination_of
from ulr.propensity.segments import estimate_segments
from ulr.propensity.tables import curve_table, joint_table, summary_lines
from ulr.registry.gate import check_diagnostics
from ulr.simulate.browsing import Continuous, Independent, eye_tracking_curve, power_curve

K = 10
CURVES = {
    "power 0.5": power_curve(K, 0.5),
    "power 2": power_curve(K, 2.0),
    "eye tracking": eye_tracking_curve(K, 1.0) / 0.68,
    "exponential": 0.8 ** np.arange(K),
}


def estimated(theta, known, errors=1e-4, **more) -> ThetaCurve:
    """A curve with estimates at some positions only."""
    known = set(known) | {1}
    reasons = {k: "too few" for k in range(1, len(theta) + 1) if k not in known}
    covariance = np.diag(np.full(len(theta), errors**2))
    covariance[0, 0] = 0
    return make_curve(
        "combined", np.asarray(theta, float), covariance, np.zeros(len(theta), np.int64), reasons,
        **more,
    )  # fmt: skip


def test_the_prediction_is_the_conditional_mean_of_a_normal_vector():
    """With a vague prior on eta, kriging with a drift is plain conditioning."""
    theta, known = CURVES["power 0.5"] * 0.9 ** np.arange(K), [2, 3, 5]
    curve = estimated(theta, known, 0.1)
    imputed = impute_theta(curve)
    position = np.arange(1, K + 1)
    x, d = np.log(position), position - 1
    prior = 1e6 * np.outer(x, x) + LAMBDA_SD**2 * np.outer(d, d)
    prior += WALK_VARIANCE * np.minimum.outer(x, x)
    at, rest = np.array(known) - 1, np.array([3, 5, 6, 7, 8, 9])
    total = prior[np.ix_(at, at)] + 0.01 * np.eye(3)
    gain = np.linalg.solve(total, prior[np.ix_(at, rest)]).T
    want = gain @ np.log(theta[at])
    np.testing.assert_allclose(np.log(imputed.theta[rest]), want, atol=1e-4)
    error = prior[np.ix_(rest, rest)] - gain @ prior[np.ix_(at, rest)]
    np.testing.assert_allclose(imputed.covariance[np.ix_(rest, rest)], error, atol=1e-3)
    across = gain @ (0.01 * np.eye(3))  # errors of the estimates are passed on
    np.testing.assert_allclose(imputed.covariance[np.ix_(rest, at)], across, atol=1e-4)
    np.testing.assert_array_equal(imputed.theta[at], theta[at])
    assert np.linalg.eigvalsh(imputed.covariance).min() > -1e-12


@pytest.mark.parametrize("name", CURVES)
def test_intervals_of_imputed_positions_contain_the_truth(name):
    rng, theta, known = np.random.default_rng(4), CURVES[name], np.arange(2, 7)
    inside = []
    for _ in range(100):
        noisy = theta.copy()
        noisy[known - 1] *= np.exp(rng.normal(0, 0.1, known.size))
        imputed = impute_theta(estimated(noisy, known, 0.1))
        low, high = imputed.interval()
        inside.append(((low <= theta) & (theta <= high))[6:].mean())
    assert np.mean(inside) > (0.6 if name == "eye tracking" else 0.9)


def test_errors_grow_with_the_distance_from_the_estimates():
    imputed = impute_theta(estimated(CURVES["power 2"], [2, 3, 4], 0.1))
    error = np.sqrt(np.diag(imputed.covariance))
    assert (np.diff(error[3:]) > 0).all()
    assert error[4] > 0.1


def test_gaps_are_filled_and_say_why():
    imputed = impute_theta(estimated(CURVES["power 0.5"], [2, 3, 6, 7, 8, 9, 10]))
    assert imputed.source[3:6] == ["imputed", "imputed", "estimated"]
    np.testing.assert_allclose(imputed.theta, CURVES["power 0.5"], rtol=0.02)
    assert imputed.note[3].startswith("log theta = -0.5")
    assert imputed.note[3].endswith("; too few")


def test_an_imputed_theta_is_not_above_the_position_before_nor_below_the_clicks():
    rising = estimated([1, 0.3, 0.4, 0.5, 0, 0], [2, 3, 4])
    assert (impute_theta(rising).theta[4:] <= 0.5).all()
    steep = estimated([1, 0.4, 0.1, 0, 0], [2, 3])
    assert impute_theta(steep).theta[4] < 0.02
    bounded = impute_theta(steep, least=np.array([1, 0.9, 0.9, 0.05, 0.03]))
    np.testing.assert_allclose(bounded.theta[1:], [0.4, 0.1, 0.05, 0.03])


def test_clicks_bound_theta_from_below():
    rng, theta = np.random.default_rng(5), CURVES["power 2"]
    above = 0
    for _ in range(300):
        clicks = rng.poisson(200 * theta * np.linspace(0.8, 0.5, K) / 0.8)
        above += (least_theta(clicks) > theta)[1:].sum()
    assert above / (300 * (K - 1)) < 0.02
    exact = least_theta(np.array([10**8, 10**7, 0]))
    np.testing.assert_allclose(exact, [1, 0.1, 0], rtol=0.01)
    assert not least_theta(np.array([0, 3])).any()


def test_nothing_is_imputed_without_a_ratio():
    curve = estimated([1, 0.5, 0.2], [])
    assert impute_theta(curve) is curve


def test_trust_bias_is_extended_in_proportion_to_theta():
    alpha, beta = np.array([0.8, 0.4, np.nan]), np.array([0.2, 0.05, np.nan])
    imputed = impute_theta(estimated([1, 0.5, 0.3], [2], alpha=alpha, beta=beta))
    np.testing.assert_allclose(imputed.alpha, 0.8 * imputed.theta)
    assert imputed.beta[2] == pytest.approx(0.1 * imputed.theta[2])


def test_psi_of_imputed_positions_is_that_of_the_browsing_model():
    curve = impute_theta(estimated(CURVES["power 0.5"], [2, 3, 4]))
    part = np.where(np.arange(K) < 4, curve.theta, np.nan)
    for name in ("independent", "continuous"):
        fit = extend_psi(BrowsingFit(name, psi_by_theta(name, part, 0.7), theta_1=0.7), curve)
        np.testing.assert_array_equal(fit.psi, psi_by_theta(name, curve.theta, 0.7))


def test_psi_of_row_skipping_keeps_the_conditional_probability():
    curve = impute_theta(estimated(CURVES["power 0.5"], [2, 3, 4]))
    psi = row_skipping_psi(0.3, np.full(K, 0.9), 2) / 0.7
    psi[4:], psi[:, 4:] = np.nan, np.nan
    fit = extend_psi(BrowsingFit("row_skipping", psi), curve)
    np.testing.assert_array_equal(fit.psi[:4, :4], psi[:4, :4])
    second_given_fourth = psi[1, 3] / psi[3, 3]
    assert fit.psi[1, 7] == fit.psi[7, 1] == pytest.approx(curve.theta[7] * second_given_fourth)
    assert fit.psi[6, 8] == pytest.approx(curve.theta[8] * second_given_fourth)  # two apart


def world(browsing, buckets, pages, *overlays):
    """The estimates from few swap pages of a world with K positions."""
    rng = np.random.default_rng(2)
    lab = SwapLab(click_model(browsing, 6), queries(rng, 8, 6), buckets)
    settings = load_settings(None, [f"propensities.{x}" for x in ("estimator=combined", *overlays)])
    settings = settings.propensities
    return estimate_segments(Evidence(lab.draw(rng, pages)), {}, settings)[0]


def test_few_swap_pages_no_longer_cut_the_lists():
    browsing, buckets = Continuous(power_curve(6, 1.0)), ["1:2", "1:3"]
    result = world(browsing, buckets, 20_000)
    assert result.curve.source == ["estimated"] * 3 + ["imputed"] * 3
    deep = {(p.k, p.l): p for p in result.pairs}[2, 6]
    assert (deep.source, deep.note[:28]) == ("imputed", "from the browsing model cont")
    assert deep.psi == pytest.approx(result.curve.theta[5])
    assert examination_of(curve_table([result]), joint_table([result]))[0].depth == 6
    cut = world(browsing, buckets, 20_000, "depth=estimated")
    assert cut.curve.source[3:] == ["insufficient"] * 3
    assert examination_of(curve_table([cut]), joint_table([cut]))[0].depth == 3


def test_the_summary_and_the_gate_name_imputed_positions_and_block_nothing():
    result = world(Independent(power_curve(6, 1.0)), ["1:2", "1:3"], 20_000)
    (line,) = [text for text in summary_lines([result]) if "is imputed" in text]
    assert line.startswith("  theta of 3 positions is imputed, 4-6: log theta = -")
    assert "fitted to 2-3" in line
    checks = check_diagnostics([{"segment": None} | vars(f) for f in result.findings], "warning")
    assert [(check.passed, check.message) for check in checks] == [(True, line.strip())]


def test_ranges_of_positions():
    assert position_ranges([2, 4, 5, 6, 9]) == "2, 4-6, 9"
    assert not position_ranges([])
