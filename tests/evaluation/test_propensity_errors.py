"""The error of the propensities in click metrics: gradients, their scatter, and coverage."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.evaluation_plans import evaluation_plan
from tests.support.pair_inputs import FEATURES, GROUPS, group, groups_of
from ulr.evaluation.estimate import finish
from ulr.evaluation.propensity_errors import PropensityScatter
from ulr.evaluation.tasks import evaluate_queries
from ulr.evaluation.totals import QUERY_SUMS, Key
from ulr.features.join import join_features
from ulr.propensity.examination import Examination
from ulr.propensity.examination_errors import ExaminationErrors

K = 3
PAIRS = [(0, 1), (0, 2), (1, 2)]
THETA = np.array([[1.0, 0.5, 0.3], [0.9, 0.6, 0.4]])  # all traffic, and segment s
PSI = np.array([[0.45, 0.28, 0.2], [0.5, 0.3, 0.3]])
BETA = np.array([[0.1, 0.05, 0.02], [0.08, 0.04, 0.03]])
SPLIT = groups_of(
    *GROUPS.to_pylist(),
    group("b", ["y", "x", "z"], {(1, 2): 3, (1, 2, 3): 1, (3,): 1}, segment="s"),
    group("a", ["y", "x"], {(1,): 2, (2,): 1}, segment="s"),
)
WINDOW = join_features(SPLIT, FEATURES)


def examination(theta, psi, beta, *, affine):
    both = np.diag(theta)
    for (k, v), value in zip(PAIRS, psi, strict=True):
        both[k, v] = both[v, k] = value
    return Examination(theta, both, theta, beta) if affine else Examination(theta, both)


def totals(parameters, *, weights, affine):
    """Return the totals as a function of log theta, beta (if affine) and log psi per curve."""
    width = 2 * K if affine else K
    first, psi = np.split(parameters, [2 * width])
    first, psi = first.reshape(2, width), np.exp(psi.reshape(2, 3))
    theta, beta = np.exp(first[:, :K]), first[:, K:] if affine else BETA
    pooled, own = (
        examination(t, p, b, affine=affine) for t, p, b in zip(theta, psi, beta, strict=True)
    )
    correction = "affine" if affine else "theta"
    plan = evaluation_plan(pooled, max_label=2, weights=weights, correction=correction)
    plan = replace(plan, by_segment={"s": own}, against=[("m", "n")])
    scorers = {"m": lambda x: np.cos(3 * x[:, 0]), "n": lambda x: np.sin(5 * x[:, 0])}
    return evaluate_queries(WINDOW, scorers, plan).sums


@pytest.mark.parametrize("weights", ["position", "policy"])
@pytest.mark.parametrize("affine", [False, True])
def test_gradients_equal_finite_differences(weights, affine):
    first = np.concatenate([np.log(THETA), BETA], axis=1) if affine else np.log(THETA)
    at = np.concatenate([first.ravel(), np.log(PSI).ravel()])
    step, options = 1e-4, {"weights": weights, "affine": affine}
    base = totals(at, **options)
    moved = [
        [totals(at + sign * step * unit, **options) for sign in (1, -1)] for unit in np.eye(at.size)
    ]
    checked = set()
    for key, sums in base.items():
        gradient = sums[QUERY_SUMS:].reshape(2, -1)
        if gradient.size == 0:
            continue
        for row, column in ((0, 1), (1, 2)):  # the sums of x and of w
            slope = [(up[key][column] - down[key][column]) / (2 * step) for up, down in moved]
            slope = slope[: gradient.shape[1]]
            np.testing.assert_allclose(gradient[row], slope, rtol=1e-4, atol=2e-3, err_msg=str(key))
        checked.add(key.name)
    assert {"ips_dcg", "snips_dcg", "snips_precision_at_3", "pair_loss"} <= checked
    assert "map" not in checked


def errors_of(rng, width):
    root = rng.normal(size=(2 * width, 2 * width)) * 0.1
    psi_root = rng.normal(size=(2, 3, 3)) * 0.1
    return ExaminationErrors(
        (root @ root.T).reshape(2, width, 2, width),
        rng.normal(size=(2, 3, K)),
        psi_root @ psi_root.transpose(0, 2, 1),
    )


@pytest.mark.parametrize("affine", [False, True])
def test_the_scatter_equals_the_covariance_of_drawn_errors(affine):
    """log theta (and beta) is drawn, then log psi = slope log theta + its own error."""
    rng = np.random.default_rng(1)
    errors, width = errors_of(rng, 2 * K), 2 * K if affine else K
    gradient = rng.normal(size=(2, 2 * width + 2 * 3))
    drawn = rng.multivariate_normal(
        np.zeros(4 * K), errors.covariance.reshape(4 * K, -1), size=200_000
    ).reshape(-1, 2, 2 * K)
    own = [rng.multivariate_normal(np.zeros(3), c, size=len(drawn)) for c in errors.psi_covariance]
    psi = np.einsum("cpk,ack->acp", errors.psi_slope, drawn[:, :, :K]) + np.stack(own, axis=1)
    parameters = np.concatenate(
        [drawn[:, :, :width].reshape(len(drawn), -1), psi.reshape(len(drawn), -1)], axis=1
    )
    want = np.cov(parameters @ gradient.T, rowvar=False)
    scatter = PropensityScatter(errors, affine)
    np.testing.assert_allclose(scatter(gradient), want, rtol=0.03, atol=0.01)
    without_psi = gradient[:, : 2 * width]
    want = np.cov(parameters[:, : 2 * width] @ without_psi.T, rowvar=False)
    np.testing.assert_allclose(scatter(without_psi), want, rtol=0.03, atol=0.01)


def test_both_parts_of_a_standard_error_add_and_propensities_add_no_degrees_of_freedom_of_queries():
    sums = np.array([4, 4.0, 4.0, 10.0, 4.0, 4.0, 4.0, 4.0])  # x = (0, 0, 1, 3), w = 1
    alone = finish(sums)
    assert alone.standard_error == pytest.approx(np.sqrt((1 + 1 + 0 + 4) / 3 / 4))
    assert alone.dof == pytest.approx(3)
    # r = 1: the variance of (x - r w) / w is (2 - 2 * 0.5 + 3) / 16.
    both = finish(sums, np.array([[2.0, 0.5], [0.5, 3.0]]))
    assert both.propensity_error == pytest.approx(0.5)
    assert both.standard_error == pytest.approx(np.hypot(alone.standard_error, 0.5))
    assert both.dof == pytest.approx(3 * ((0.5 + 0.25) / 0.5) ** 2)


def test_totals_with_errors_are_finished_once_and_not_added():
    plan = evaluation_plan(examination(THETA[0], PSI[0], BETA[0], affine=False), max_label=2)
    raw = evaluate_queries(WINDOW, {}, plan)
    errors = ExaminationErrors(
        np.diag([0.0, 0.04, 0.09]).reshape(1, K, 1, K), np.zeros((1, 3, K)), np.zeros((1, 3, 3))
    )
    known = raw.with_propensity_errors(PropensityScatter(errors, affine=False))
    key = Key("logging", None, None, None, "ips_dcg")
    x, w = raw.sums[key][1:3]
    by_position = raw.sums[key][QUERY_SUMS : QUERY_SUMS + K]
    assert by_position.sum() == pytest.approx(-x)  # every click is at one position
    want = np.sqrt(0.04 * by_position[1] ** 2 + 0.09 * by_position[2] ** 2) / w
    assert known.estimates()[key].propensity_error == pytest.approx(want)
    assert raw.with_propensity_errors(None).estimates()[key].propensity_error == 0
    assert known.estimates()[key._replace(name="map")].propensity_error == 0
    with pytest.raises(ValueError, match="add the totals before"):
        known + raw
