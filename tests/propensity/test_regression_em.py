from __future__ import annotations

import numpy as np
import pytest

from tests.support import propensity_loops as loops
from ulr.propensity.exposures import Exposures
from ulr.propensity.regression_em import em_curve, em_step, run_em

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
