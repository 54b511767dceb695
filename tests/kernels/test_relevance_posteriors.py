"""Posteriors of relevance: integrals against a fine grid, one document at a time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betaincinv, betaln, logit

from ulr.kernels.layout import offsets_of
from ulr.kernels.relevance import ShownCounts
from ulr.kernels.relevance_posteriors import relevance_posteriors

TAIL = 0.025


def shown(documents):
    """documents: lists of (alpha, beta, clicks, sessions)."""
    offsets = offsets_of([len(cells) for cells in documents])
    columns = np.array([cell for cells in documents for cell in cells], float)
    return ShownCounts(offsets, *np.ascontiguousarray(columns.T))


def posteriors(documents, a, b, tail=TAIL, fineness=0.5, *, one=0.0):
    counts = shown(documents)
    ones = np.ones(len(documents))
    return relevance_posteriors(counts, a * ones, b * ones, one, tail, fineness)


def on_a_grid(cells, a, b):
    """Return mean, quantiles of logit r, log evidence, means of log r and log(1 - r)."""
    x = np.linspace(-150, 45, 1_000_001)
    log_r, log_q = -np.logaddexp(0, -x), -np.logaddexp(0, x)
    r, q = np.exp(log_r), np.exp(log_q)
    density = a * log_r + b * log_q
    for alpha, beta, clicks, sessions in cells:
        if clicks:
            density = density + clicks * (
                np.log(alpha * r + beta) if beta else np.log(alpha) + log_r
            )
        if sessions > clicks:
            miss = max(1 - alpha - beta, 0.0)
            log_miss = np.log(alpha) + log_q if miss == 0 else np.log(miss + alpha * q)
            density = density + (sessions - clicks) * log_miss
    peak = density.max()
    weight = np.exp(density - peak)
    steps = np.append(0, (weight[1:] + weight[:-1]) / 2) * (x[1] - x[0])
    total = steps.sum()
    below = np.cumsum(steps) / total
    lower, upper = np.interp([TAIL, 1 - TAIL], below, x)

    def mean(values):
        return (weight * values).sum() / weight.sum()

    evidence = peak + np.log(total) - betaln(a, b)
    return mean(r), lower, upper, evidence, mean(log_r), mean(log_q)


@pytest.mark.parametrize("seed", range(40))
def test_integrals_are_those_on_a_fine_grid(seed):
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 5)
    beta = np.where(rng.random(size) < 0.4, rng.uniform(0, 0.3, size), 0.0) * (seed % 2)
    alpha = np.minimum(rng.uniform(0.05, 1, size), 1 - beta)
    if seed % 3 == 0:
        alpha[0], beta[0] = 1.0, 0.0
    sessions = np.floor(10 ** rng.uniform(0, 4, size))
    clicks = rng.binomial(sessions.astype(int), alpha * rng.beta(0.5, 2) + beta) * (seed % 5 > 0)
    cells = list(zip(alpha, beta, clicks, sessions, strict=True))
    a, b = rng.uniform(0.3, 5, 2)
    expected = on_a_grid(cells, a, b)
    found = posteriors([cells], a, b, TAIL, 0.5)
    spread = expected[2] - expected[1]
    names = ("mean", "lower", "upper", "log_evidence", "log_r", "log_1_r")
    for name, exact in zip(names, expected, strict=True):
        tolerance = 2e-3 * spread if name in ("lower", "upper") else 1e-6 * max(1, abs(exact))
        assert getattr(found, name)[0] == pytest.approx(exact, abs=tolerance), name


def test_without_position_bias_the_posterior_is_the_beta_distribution():
    found = posteriors([[(1.0, 0.0, 3.0, 10.0)]], 0.5, 2.0, TAIL, 0.5)
    assert found.mean[0] == pytest.approx(3.5 / 12.5, abs=1e-9)
    quantiles = logit(betaincinv(3.5, 9.0, [TAIL, 1 - TAIL]))
    assert [found.lower[0], found.upper[0]] == pytest.approx(quantiles, abs=1e-3)
    assert found.log_evidence[0] == pytest.approx(betaln(3.5, 9.0) - betaln(0.5, 2.0), abs=1e-9)


def test_without_sessions_the_posterior_is_the_prior():
    found = posteriors([[(0.5, 0.0, 0.0, 0.0)]], 0.3, 0.9, TAIL, 0.5)
    assert found.mean[0] == pytest.approx(0.3 / 1.2, abs=1e-6)
    quantiles = logit(betaincinv(0.3, 0.9, [TAIL, 1 - TAIL]))
    assert [found.lower[0], found.upper[0]] == pytest.approx(quantiles, abs=1e-2)
    assert found.log_evidence[0] == pytest.approx(0, abs=1e-6)


def test_more_clicks_than_examined_impressions_leave_relevance_below_1():
    """The conjugate approximation has no posterior here: 5 clicks in 1 examined impression."""
    found = posteriors([[(0.1, 0.0, 5.0, 10.0)]], 0.5, 0.9, TAIL, 0.5)
    assert 0.5 < found.mean[0] < 1
    assert found.lower[0] < found.upper[0]


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_the_mode_moves_with_the_propensities_as_its_derivatives_say(beta):
    """With 1e6 sessions quantiles move with the mode."""
    step = 1e-4
    cells = np.array([[0.7, beta, 3e5, 1e6], [0.3, 0.0, 1e5, 1e6]])

    def middle(alpha_factor=1.0, more_beta=0.0):
        changed = cells.copy()
        changed[0, 0] *= alpha_factor
        changed[0, 1] += more_beta
        found = posteriors([changed], 1.0, 1.0, 0.5, 0.1)
        return found.lower[0]

    found = posteriors([cells], 1.0, 1.0, TAIL, 0.5)
    by_alpha = (middle(np.exp(step)) - middle(np.exp(-step))) / (2 * step)
    assert found.by_log_alpha[0] == pytest.approx(by_alpha, rel=1e-3)
    by_beta = (middle(more_beta=step) - middle(more_beta=0.0)) / step
    assert found.by_beta[0] == pytest.approx(by_beta, rel=5e-3)


def test_relevance_1_has_a_probability_by_its_likelihood():
    """At theta = 0.5: a document that is clicked whenever it is examined, and others."""
    cells = [[(0.5, 0.0, 6.0, 10.0)], [(0.5, 0.0, 1.0, 40.0)], [(1.0, 0.0, 9.0, 10.0)]]
    smooth, mixed = (posteriors(cells, 1.0, 3.0, one=one) for one in (0.0, 0.1))
    for d, (((_, _, clicks, sessions),), at_1) in enumerate(
        zip(cells, (0.5**10, 0.5**40, 0.0), strict=True)
    ):
        assert clicks <= sessions
        weights = 0.1 * at_1, 0.9 * np.exp(smooth.log_evidence[d])
        one = weights[0] / sum(weights)
        assert mixed.one[d] == pytest.approx(one, rel=1e-6)
        assert mixed.log_evidence[d] == pytest.approx(np.log(sum(weights)), rel=1e-9)
        assert mixed.mean[d] == pytest.approx(one + (1 - one) * smooth.mean[d], rel=1e-6)
        assert mixed.upper[d] == (np.inf if one > TAIL else pytest.approx(smooth.upper[d], rel=0.1))
    sure = posteriors([[(0.5, 0.0, 500.0, 1000.0)]], 1.0, 3.0, one=0.1)
    assert sure.one[0] > 0.9
    assert sure.mean[0] > 0.99
