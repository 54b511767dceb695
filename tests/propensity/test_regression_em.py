from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from tests.support import propensity_loops as loops
from ulr.errors import InvalidData
from ulr.propensity.curve_checks import relevance_findings
from ulr.propensity.exposures import Exposures
from ulr.propensity.regression_em import em_curve, em_step, run_em
from ulr.propensity.regression_em_model import _residuals

POSITIONS = 5
THETA = np.arange(1, POSITIONS + 1) ** -1.0


def simulate(rng, documents, *, shows=40, moves=True):
    """Relevance is a function of two features; documents are shown at random places."""
    features = rng.normal(size=(documents, 2))
    relevance = 1 / (1 + np.exp(-1.5 * features[:, 0] - features[:, 1]))
    rows = []
    for d in range(documents):
        places = rng.choice(POSITIONS, 2 if moves else 1, replace=False)
        for k in places:
            n = int(rng.integers(1, shows))
            rows.append((d, k, rng.binomial(n, THETA[k] * relevance[d]), n))
    table = np.array(rows)
    return Exposures(
        table[:, 0],
        table[:, 1],
        table[:, 2].astype(float),
        table[:, 3].astype(float),
        np.arange(documents) % 32,
        features,
    ), relevance


def test_one_em_step_equals_a_loop_over_rows():
    shown, _ = simulate(np.random.default_rng(0), 20)
    rng = np.random.default_rng(1)
    theta, relevance = rng.uniform(0.1, 0.9, POSITIONS), rng.uniform(0.1, 0.9, 20)
    rows = [
        (int(d), int(k) + 1, float(c), float(n))
        for d, k, c, n in zip(
            shown.document, shown.position, shown.clicks, shown.impressions, strict=True
        )
    ]
    expected = loops.em_step(theta.tolist(), relevance.tolist(), rows)
    got = em_step(theta, relevance, shown)
    np.testing.assert_allclose(got[0], expected[0])
    np.testing.assert_allclose(got[1], expected[1])


def test_recovers_the_curve_through_features():
    shown, relevance = simulate(np.random.default_rng(2), 3000, moves=False)
    theta, estimate, slope, rounds = run_em(
        shown, POSITIONS, rounds=20, trees=60, leaves=8, threads=1
    )
    np.testing.assert_allclose(theta, THETA, rtol=0.15)
    assert np.corrcoef(estimate, relevance)[0, 1] > 0.9
    assert 0.8 < slope < 1.3
    assert rounds < 20


def test_recovers_the_curve_without_features_where_documents_move():
    shown, _ = simulate(np.random.default_rng(3), 4000)
    bare = Exposures(
        shown.document, shown.position, shown.clicks, shown.impressions, shown.block
    )  # fmt: skip
    curve = em_curve(bare, POSITIONS, rounds=200, trees=1, leaves=2, min_clicks=10, folds=4)
    np.testing.assert_allclose(curve.theta, THETA, rtol=0.2)
    assert np.all(curve.standard_error[1:] > 0)


def test_without_features_unlinked_positions_have_no_estimate():
    shown = Exposures(
        np.array([0, 0, 1, 1]),
        np.array([0, 1, 2, 3]),
        np.full(4, 20.0),
        np.full(4, 100.0),
        np.arange(2),
    )
    curve = em_curve(shown, 4, rounds=5, trees=1, leaves=2, min_clicks=1, folds=2)
    assert curve.components == [[1, 2], [3, 4]]
    assert curve.source[2:] == ["insufficient", "insufficient"]


@pytest.mark.parametrize("rounds", [1, 50])
def test_probabilities_stay_probabilities(rounds):
    shown, _ = simulate(np.random.default_rng(4), 50, shows=3)
    theta, relevance, *_ = run_em(shown, POSITIONS, rounds=rounds, trees=2, leaves=3, threads=1)
    assert np.all(theta > 0)
    assert np.all((relevance > 0) & (relevance < 1))


def test_the_relevance_of_a_document_comes_from_the_clicks_of_the_other_half():
    """Clicks of documents in even blocks change the predictions of those in odd blocks only."""
    shown, _ = simulate(np.random.default_rng(5), 400, moves=False)
    even = shown.block[shown.document] % 2 == 0
    clicks = np.where(even, np.floor(shown.clicks / 2), shown.clicks)
    start = 1 / np.arange(1, POSITIONS + 1)
    one, other = (
        run_em(replace(shown, clicks=c), POSITIONS, rounds=1, trees=20, leaves=8, threads=1,
               start=start).relevance
        for c in (shown.clicks, clicks)
    )  # fmt: skip
    odd = shown.block % 2 == 1
    np.testing.assert_array_equal(one[~odd], other[~odd])
    assert np.mean(other[odd] < one[odd]) > 0.95


def test_the_gradient_and_the_information_are_those_of_the_click_likelihood():
    shown, _ = simulate(np.random.default_rng(6), 30)
    theta, logit = np.linspace(0.9, 0.2, POSITIONS), np.linspace(-2, 2, 30)

    def likelihood(shift, scale):
        p = (theta * np.exp(scale))[shown.position] * expit(logit + shift)[shown.document]
        unclicked = shown.impressions - shown.clicks
        return shown.clicks * np.log(p) + unclicked * np.log1p(-p)

    g = expit(logit)
    residual, information = _residuals(theta, g, shown)
    step = 1e-6
    by_logit = (likelihood(step, 0) - likelihood(-step, 0)) / (2 * step)
    by_theta = (likelihood(0, step) - likelihood(0, -step)) / (2 * step)
    np.testing.assert_allclose(residual * (1 - g[shown.document]), by_logit, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(residual, by_theta, rtol=1e-4, atol=1e-4)
    p = theta[shown.position] * g[shown.document]
    drawn = np.random.default_rng(7).binomial(shown.impressions.astype(int), p, (4000, p.size))
    scores = (drawn - shown.impressions * p) / (1 - p)
    np.testing.assert_allclose(scores.var(axis=0), information, rtol=0.2)


def test_queries_in_one_block_cannot_be_cross_fitted():
    shown, _ = simulate(np.random.default_rng(8), 20)
    with pytest.raises(InvalidData, match="two blocks"):
        run_em(
            replace(shown, block=np.zeros(20, int)), POSITIONS, rounds=1, trees=2, leaves=2
        )  # fmt: skip


@pytest.mark.parametrize(("ignored", "verdict"), [(10.0, "ok"), (500.0, "note")])
def test_documents_without_features_are_counted(ignored, verdict):
    shown, _ = simulate(np.random.default_rng(9), 200)
    shown = replace(shown, ignored_documents=7, ignored_impressions=ignored)
    curve = em_curve(shown, POSITIONS, rounds=2, trees=5, leaves=4, min_clicks=1, folds=2)
    features, calibration = relevance_findings(curve)
    share = ignored / (ignored + shown.impressions.sum())
    assert features.verdict == verdict
    assert features.message == (
        f"7 of 207 documents have no features and are ignored, with {share:.1%} of the impressions"
    )
    assert calibration.value == curve.relevance.slope
    assert "after 2 rounds" in calibration.message


def test_too_few_trees_have_a_slope_above_one():
    shown, _ = simulate(np.random.default_rng(10), 2000, moves=False)
    slopes = [
        run_em(shown, POSITIONS, rounds=3, trees=trees, leaves=8, threads=1).slope
        for trees in (5, 60)
    ]
    assert slopes[0] > 1.5
    assert 0.9 < slopes[1] < 1.2
