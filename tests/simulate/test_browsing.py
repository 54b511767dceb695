from __future__ import annotations

import itertools

import numpy as np
import pytest

from ulr.simulate.browsing import (
    CURVES,
    Cascade,
    Continuous,
    Independent,
    RowSkipping,
    SingleChoice,
    eye_tracking_curve,
    power_curve,
)
from ulr.simulate.clicks import ClickModel, relevance_of, trust_curve

POSITIONS = 6
PAGES = 200_000
THETA = power_curve(POSITIONS, 1.0)

MODELS = {
    "independent": Independent(THETA),
    "continuous": Continuous(THETA),
    "row skipping": RowSkipping(0.3, np.linspace(0.95, 0.7, POSITIONS), 2),
    "row skipping, one column": RowSkipping(0.2, np.full(POSITIONS, 0.9), 1),
    "row skipping, a row cut short": RowSkipping(0.4, np.full(POSITIONS, 0.8), 4),
    "cascade": Cascade(1.0, 1.0),
    "dynamic Bayesian network": Cascade(0.6, 0.9),
    "satisfaction by relevance": Cascade(None, 0.5),
}


def examined(model, relevance: np.ndarray, pages: int = PAGES) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    attractive = rng.random((pages, relevance.size)) < relevance
    shown = np.broadcast_to(relevance, attractive.shape)
    return model.examine(rng, attractive, shown), attractive


@pytest.mark.parametrize("name", MODELS)
def test_pairs_of_positions_are_examined_with_the_true_probabilities(name):
    relevance = np.linspace(0.6, 0.2, POSITIONS)
    e, _ = examined(MODELS[name], relevance)
    psi = MODELS[name].truth(relevance[None, :], np.ones(1), relevance[None, :])
    observed = e.T.astype(float) @ e / PAGES
    error = np.sqrt(np.maximum(psi * (1 - psi), 1e-9) / PAGES)
    assert (np.abs(observed - psi) < 5 * error + 1e-12).all()


@pytest.mark.parametrize("name", MODELS)
def test_true_psi_is_within_the_frechet_bounds(name):
    half = np.full((1, POSITIONS), 0.5)
    psi = MODELS[name].truth(half, np.ones(1), half)
    theta = np.diag(psi)
    assert (psi <= np.minimum.outer(theta, theta) + 1e-12).all()
    assert (psi >= np.add.outer(theta, theta) - 1 - 1e-12).all()
    assert np.allclose(psi, psi.T)


def test_a_single_click_is_drawn_with_the_odds_of_the_positions():
    relevance = np.array([0.3, 0.9, 0.5])
    odds = np.array([1.0, 0.5, 0.25])
    expected = np.zeros(3)  # P(chosen | attractive), by listing every set of attractive documents
    for attractive in itertools.product([0, 1], repeat=3):
        chance = np.prod(np.where(attractive, relevance, 1 - relevance))
        if any(attractive):
            expected += chance * odds * attractive / np.dot(odds, attractive) / relevance
    model = SingleChoice(odds)
    psi = model.truth(relevance[None, :], np.ones(1))
    assert np.allclose(np.diag(psi), expected)
    assert (psi - np.diag(np.diag(psi)) == 0).all()
    e, attractive = examined(model, relevance)
    clicks = e & attractive
    assert (clicks.sum(axis=1) <= 1).all()
    assert np.allclose(clicks.sum(axis=0) / attractive.sum(axis=0), expected, atol=0.01)


def test_truth_is_averaged_over_queries_by_their_traffic():
    relevance = np.array([[0.2, 0.4], [0.8, 0.6]])
    model = Cascade(1.0, 1.0)
    psi = model.truth(relevance, np.array([0.25, 0.75]))
    assert psi[1, 1] == pytest.approx(0.25 * (1 - 0.2) + 0.75 * (1 - 0.8))


def test_clicks_satisfy_with_half_the_relevance_of_each_document():
    """Pages of different relevance and length, with click noise, against the true click rates."""
    relevance = np.array([[1.0, 0.4, 0.1, 0.8], [0.1, 1.0, 0.6, -1.0]])
    weight = np.array([0.3, 0.7])
    model = ClickModel(Cascade(None, 0.5), np.full(4, 0.9), np.full(4, 0.2))
    rng = np.random.default_rng(8)
    query = (rng.random(PAGES) < weight[1]).astype(int)
    clicks = model.draw(rng, relevance[query])
    attraction = np.where(relevance >= 0, 0.2 + 0.7 * relevance, 0.0)
    reach = np.ones(2)
    for k in range(4):
        rate = [clicks[query == q, k].mean() for q in (0, 1)]
        assert np.allclose(rate, reach * attraction[:, k], atol=0.006)
        theta = model.truth(relevance, weight)[0][k, k]
        assert theta == pytest.approx(weight @ reach)
        reach = reach * 0.5 * (1 - np.maximum(relevance[:, k], 0) / 2 * attraction[:, k])


def test_satisfaction_by_relevance_needs_the_relevance():
    with pytest.raises(ValueError, match="needs the relevance"):
        Cascade(None, 0.5).truth(np.full((1, 3), 0.5), np.ones(1))


def test_examination_curves_decrease_with_position():
    assert power_curve(4, 2.0).tolist() == [1, 1 / 4, 1 / 9, 1 / 16]
    for curve in CURVES.values():
        assert (np.diff(curve(30, 1.0)) < 0).all()
    assert eye_tracking_curve(3, 1.0).size == 3


def test_click_rates_are_affine_in_relevance_with_the_true_alpha_and_beta():
    positions = 4
    model = ClickModel(
        Independent(power_curve(positions, 0.5)),
        np.full(positions, 0.9),
        trust_curve(positions, 0.05, 0.3),
    )
    rng = np.random.default_rng(3)
    for relevance in (0.2, 0.7):
        matrix = np.full((PAGES, positions), relevance)
        _, alpha, beta = model.truth(matrix[:1], np.ones(1))
        rate = model.draw(rng, matrix).mean(axis=0)
        assert np.allclose(rate, alpha * relevance + beta, atol=0.006)


def test_nothing_is_clicked_past_the_end_of_a_page():
    model = ClickModel(Independent(np.ones(3)), np.ones(3), np.ones(3))
    relevance = np.array([[1.0, 1.0, -1.0]])
    clicks = model.draw(np.random.default_rng(0), relevance)
    assert clicks.tolist() == [[True, True, False]]


def test_relevance_rises_with_the_label_from_noise_to_one():
    assert relevance_of(np.array([0, 1, 2]), 2, 0.1).tolist() == pytest.approx(
        [0.1, 0.1 + 0.9 * 1 / 3, 1.0]
    )


def test_binarised_relevance_is_one_or_noise():
    labels = np.array([0, 1, 2, 3, 4])
    assert relevance_of(labels, 4, 0.1, 3).tolist() == pytest.approx([0.1, 0.1, 0.1, 1.0, 1.0])
    assert relevance_of(labels, 4, 0.0, 1).tolist() == [0, 1, 1, 1, 1]
