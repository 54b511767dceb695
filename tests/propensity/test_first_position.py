"""theta(1) < 1: psi relative to it, and weights that are unbiased with it (methods section 3.4)."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.pair_samples import histograms
from tests.support.swap_lab import SwapLab, click_model, queries, single_buckets
from ulr.config.load import load_settings
from ulr.errors import UserError
from ulr.pairs.weighting import weigh_histograms
from ulr.pairs.weights import weight_table
from ulr.propensity.affine import Regression, affine_curve
from ulr.propensity.browsing import fit_browsing
from ulr.propensity.estimators import Evidence, given_curve
from ulr.propensity.examination import examination_of
from ulr.propensity.segments import estimate_segments
from ulr.propensity.tables import curve_table, joint_table, summary_lines
from ulr.simulate.browsing import Continuous, Independent, RowSkipping, eye_tracking_curve

K = 6
THETA = eye_tracking_curve(K, 1.0)  # 0.68 at position 1
RELEVANCE = np.array([0.9, 0.2, 0.6, 0.4, 0.8, 0.5])
MODELS = {
    "independent": Independent(THETA),
    "continuous": Continuous(THETA),
    "row_skipping": RowSkipping(1 - THETA[0], np.full(K, 0.85), 2),
}


def estimated(browsing, theta_1, pages=3_000_000):
    """All estimates from a swap experiment of a world where position 1 may be skipped."""
    rng = np.random.default_rng(3)
    lab = SwapLab(click_model(browsing, K), queries(rng, 8, K), single_buckets(K))
    overlays = [] if theta_1 is None else [f"propensities.theta_1={theta_1}"]
    settings = load_settings(None, ["propensities.estimator=combined", *overlays]).propensities
    return estimate_segments(Evidence(lab.draw(rng, pages)), {}, settings)[0]


def mean_weights(browsing, examination, sessions=400_000):
    """The mean of `joint` weights over simulated sessions of one ranking."""
    rng = np.random.default_rng(11)
    relevant = rng.random((sessions, K)) < RELEVANCE
    clicks = relevant & browsing.examine(rng, relevant)
    patterns, counts = np.unique(clicks, axis=0, return_counts=True)
    group = (K, {tuple(p): int(c) for p, c in zip(patterns, counts, strict=True)})
    table = weight_table("joint", examination)[None]
    pairs, _ = weigh_histograms(histograms([group]), np.zeros(1), table, table)
    u = np.zeros((K, K))
    u[pairs.i, pairs.j], u[pairs.j, pairs.i] = pairs.u_ij, pairs.u_ji
    return u / sessions


@pytest.mark.parametrize("name", MODELS)
def test_joint_is_unbiased_where_position_1_is_skipped_and_theta_1_is_known(name):
    result = estimated(MODELS[name], theta_1=0.68)
    assert result.browsing.name == name
    examination, _ = examination_of(curve_table([result]), joint_table([result]))
    truth = np.outer(RELEVANCE, 1 - RELEVANCE)
    error = mean_weights(MODELS[name], examination) - truth
    assert np.abs(error[~np.eye(K, dtype=bool)]).max() < 0.05


def test_without_theta_1_independent_browsing_has_the_bias_that_the_note_states():
    result = estimated(MODELS["independent"], theta_1=None)
    examination, _ = examination_of(curve_table([result]), joint_table([result]))
    common = THETA[0]  # theta relative to position 1 makes every weight this much smaller
    want = np.outer(RELEVANCE, 1 - RELEVANCE) + (1 - THETA[0]) * np.outer(RELEVANCE, RELEVANCE)
    error = mean_weights(MODELS["independent"], examination) / common - want
    assert np.abs(error[~np.eye(K, dtype=bool)]).max() < 0.05
    (note,) = [f for f in result.findings if f.subject == "theta(1)"]
    assert note.verdict == "ok"  # blocks no promotion
    assert "(1 - theta(1)) r_i r_j" in note.message
    assert f"  {note.message}" in summary_lines([result])


def test_nested_browsing_needs_no_theta_1():
    known, unknown = (estimated(MODELS["continuous"], theta_1) for theta_1 in (0.68, None))
    assert [p.psi for p in known.pairs] == [p.psi for p in unknown.pairs]
    assert not [f for f in unknown.findings if f.subject == "theta(1)"]


def test_psi_of_the_models_is_relative_to_theta_1():
    theta = THETA / THETA[0]
    for name, model in MODELS.items():
        if name != "row_skipping":
            absolute = model.truth(np.ones((1, K)), np.ones(1))
            fit, _ = fit_browsing(name, theta, None, width=2, theta_1=0.68)
            np.testing.assert_allclose(fit.psi, absolute / 0.68)
            first_given_second = {"independent": 0.68, "continuous": 1.0}[name]
            assert fit.first_given_second == pytest.approx(first_given_second)


def test_row_skipping_skips_the_first_row_with_the_complement_of_theta_1():
    result = estimated(MODELS["row_skipping"], theta_1=0.68)
    assert result.browsing.parameters["gamma"] == pytest.approx(0.32)


def test_published_theta_is_relative_and_loaded_theta_is_not():
    result = estimated(MODELS["independent"], theta_1=0.68, pages=200_000)
    curve = curve_table([result])
    assert curve["theta"][0].as_py() == 1.0
    assert set(curve["theta_1"].to_pylist()) == {0.68}
    loaded, _ = examination_of(curve, joint_table([result]))
    assert loaded.theta[0] == loaded.psi[0, 0] == pytest.approx(0.68)
    before, _ = examination_of(curve.drop_columns("theta_1"), joint_table([result]))
    np.testing.assert_allclose(loaded.psi, 0.68 * before.psi)


def test_clicks_without_relevance_leave_the_rest_of_theta_1_to_alpha():
    fit = Regression(2, 100, 0.5, 0.01, 0.0, 0.01, 0.01, 0.01)
    curve = affine_curve([fit], 2, beta_1=0.1, theta_1=0.7)
    np.testing.assert_allclose(curve.alpha, [0.6, 0.3])
    np.testing.assert_allclose(curve.theta, [1.0, 0.5])


def test_contradictory_settings_are_rejected():
    with pytest.raises(UserError, match="not relative to position 1"):
        given_curve([0.68, 0.5], 0.68)
    with pytest.raises(UserError, match="beta_1"):
        load_settings(None, ["propensities.theta_1=0.2", "propensities.beta_1=0.3"])
