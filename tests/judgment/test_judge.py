"""Ratings of documents: against a plain loop, and how often intervals contain the truth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import betaincinv, expit, logit

from ulr.errors import InvalidData, UserError
from ulr.judgment.counts import Curves, by_document, join_curves, make_curves
from ulr.judgment.judge import JudgePlan, judge, rate
from ulr.judgment.prior import BOUNDS, Prior, fit_prior
from ulr.propensity.examination import Examination
from ulr.propensity.examination_errors import ExaminationErrors

THETA = np.array([1.0, 0.6, 0.4, 0.3])


def beta_prior(a, b):
    """Return Beta(a, b) for all documents."""
    return Prior(a + b, float(np.log(a / b)), 0.0, 0.0, (0.0,))


A, B = 0.8, 2.4
PRIOR = beta_prior(A, B)


def curves(theta=THETA, covariance=None, **by_segment):
    every = np.stack([theta, *by_segment.values()])
    number = {name: n for n, name in enumerate(by_segment, start=1)}
    return Curves(every, np.zeros_like(every), number, covariance)


def rows(cells):
    """cells: (query, document, segment, position, clicks, impressions)."""
    names = ["query_id", "doc_id", "segment", "position", "clicks", "impressions"]
    columns = [pa.array(column) for column in zip(*cells, strict=True)]
    return pa.table(columns, names=names)


CELLS = [
    ("b", "x", None, 2, 3, 10),
    ("a", "y", "mobile", 1, 0, 4),
    ("a", "x", None, 3, 2, 9),
    ("a", "x", "mobile", 1, 1, 2),
    ("a", "x", None, 1, 5, 8),
    ("a", "x", "desktop", 1, 1, 3),
]
MOBILE = np.array([0.9, 0.3, 0.2, 0.1])


def posterior(cells):
    """Return mean and 95% interval by sums over a grid. cells: (theta, clicks, impressions)."""
    r = (np.arange(200_000) + 0.5) / 200_000
    density = (A - 1) * np.log(r) + (B - 1) * np.log1p(-r)
    for theta, clicks, impressions in cells:
        density += clicks * np.log(theta * r) + (impressions - clicks) * np.log1p(-theta * r)
    weight = np.exp(density - density.max())
    below = np.cumsum(weight) / weight.sum()
    return (weight @ r) / weight.sum(), *np.interp([0.025, 0.975], below, r)


def test_a_rating_is_the_posterior_mean_over_positions_and_segments():
    plan = JudgePlan(curves(mobile=MOBILE), PRIOR)
    table = judge(by_document(rows(CELLS)), plan)
    assert table["query_id"].to_pylist() == ["a", "a", "b"]
    assert table["doc_id"].to_pylist() == ["x", "y", "x"]
    # desktop has no curve of its own
    shown = [[(1.0, 5, 8), (0.4, 2, 9), (1.0, 1, 3), (0.9, 1, 2)], [(0.9, 0, 4)], [(0.6, 3, 10)]]
    for n, cells in enumerate(shown):
        found = [table[name][n].as_py() for name in ("rating", "lower", "upper")]
        assert found == pytest.approx(posterior(cells), abs=2e-3)
    assert table["clicks"].to_pylist() == [9, 0, 3]
    assert table["impressions"].to_pylist() == [22, 4, 10]
    examined = [8 + 0.4 * 9 + 3 + 0.9 * 2, 0.9 * 4, 0.6 * 10]
    assert table["examined"].to_pylist() == pytest.approx(examined)


def test_documents_with_few_impressions_are_left_out():
    plan = JudgePlan(curves(mobile=MOBILE), PRIOR, min_impressions=10)
    table = judge(by_document(rows(CELLS)), plan)
    assert table.select(["query_id", "doc_id"]).to_pylist() == [
        {"query_id": "a", "doc_id": "x"},
        {"query_id": "b", "doc_id": "x"},
    ]


def test_intervals_contain_the_error_of_the_propensities():
    """With many clicks logit r moves by the error of log theta over 1 - r."""
    covariance = np.diag([0.0, 0.1, 0.2, 0.3]) ** 2
    clicked = by_document(rows([("q", "x", None, 2, 150_000, 500_000)]))
    exact, wide = (
        rate(join_curves(clicked, own), JudgePlan(own, PRIOR))
        for own in (curves(), curves(covariance=covariance))
    )
    relevance = 150_000 / (500_000 * 0.6)
    half = 1.96 * 0.1 / (1 - relevance)
    expected = expit(logit(relevance) + np.array([-half, half]))
    assert wide.rating[0] == exact.rating[0] == pytest.approx(relevance, abs=1e-4)
    assert [wide.lower[0], wide.upper[0]] == pytest.approx(expected, rel=1e-2)
    assert exact.upper[0] - exact.lower[0] < 0.02


def test_without_sessions_to_speak_of_the_error_of_the_propensities_does_not_matter():
    clicked = by_document(rows([("q", "x", None, 4, 0, 1)]))
    exact, wide = (
        rate(join_curves(clicked, own), JudgePlan(own, PRIOR))
        for own in (curves(), curves(covariance=np.diag(np.full(4, 0.3**2))))
    )
    assert wide.upper[0] == pytest.approx(exact.upper[0], rel=0.02)


def test_trust_bias_is_subtracted():
    alpha, beta = np.array([0.8, 0.5]), np.array([0.2, 0.05])
    own = Examination(alpha, np.outer(alpha, alpha), alpha=alpha, beta=beta)
    affine = make_curves(own, {}, affine=True)
    clicked = by_document(rows([("q", "x", None, 1, 36_000, 100_000)]))
    result = rate(join_curves(clicked, affine), JudgePlan(affine, PRIOR))
    assert result.rating[0] == pytest.approx((0.36 - 0.2) / 0.8, abs=2e-3)
    with pytest.raises(UserError, match="needs alpha and beta"):
        make_curves(Examination(THETA, np.outer(THETA, THETA)), {}, affine=True)


def test_errors_of_curves_are_taken_from_the_examination():
    size = THETA.size
    covariance = np.arange(4 * size * size, dtype=float).reshape(2, size, 2, size)
    pairs = size * (size - 1) // 2
    errors = ExaminationErrors(covariance, np.zeros((2, pairs, size)), np.zeros((2, pairs, pairs)))
    pooled = Examination(THETA, np.outer(THETA, THETA), errors=errors)
    own = make_curves(pooled, {"mobile": Examination(MOBILE, np.outer(MOBILE, MOBILE))},
                      affine=False)  # fmt: skip
    np.testing.assert_array_equal(own.covariance, covariance.reshape(2 * size, 2 * size))
    clicked = join_curves(by_document(rows(CELLS)), own)
    assert sorted(clicked.parameter.tolist()) == [0, 0, 1, 2, size, size]


def simulate(rng, prior, documents, sessions):
    """Return the true relevance and the counts of documents shown at two random positions.

    prior: a and b of all documents or of each.
    """
    truth = rng.beta(*prior, documents)
    cells = []
    for n, relevance in enumerate(truth):
        for position in rng.choice(THETA.size, 2, replace=False):
            shown = int(rng.geometric(1 / sessions))
            clicks = rng.binomial(shown, THETA[position] * relevance)
            cells.append(("q", f"{n:05d}", None, int(position) + 1, int(clicks), shown))
    return truth, by_document(rows(cells))


@pytest.mark.parametrize(("a", "b"), [(0.5, 2.0), (2.0, 6.0)])
def test_the_prior_is_recovered_from_clicks(a, b):
    _, documents = simulate(np.random.default_rng(5), (a, b), 4000, 15)
    prior = fit_prior(join_curves(documents, curves()).shown, "log")
    assert prior.mean == pytest.approx(a / (a + b), abs=0.015)
    assert np.log(prior.strength) == pytest.approx(np.log(a + b), abs=0.25)
    quantiles = betaincinv(a, b, [0.025, 0.975])
    assert prior.interval(0.025) == pytest.approx(quantiles, abs=0.03)
    assert prior.below(quantiles) == pytest.approx([0.025, 0.975], abs=0.02)


def test_without_a_relation_to_the_position_its_slope_is_near_0():
    _, documents = simulate(np.random.default_rng(6), (A, B), 4000, 15)
    shown = join_curves(documents, curves()).shown
    assert fit_prior(shown).slope == pytest.approx(0, abs=0.15)
    assert fit_prior(shown, "log").slope == 0


def test_a_better_ranking_has_a_prior_with_a_slope():
    """The odds of relevance are those of the mean examination, squared."""
    rng = np.random.default_rng(7)
    position = rng.integers(0, 4, 6000)
    mean = expit(2 * np.log(THETA[position]))
    truth = rng.beta(4 * mean, 4 * (1 - mean))
    clicks = rng.binomial(10, THETA[position] * truth)
    cells = [("q", f"{n:05d}", None, int(k) + 1, int(c), 10)
             for n, (k, c) in enumerate(zip(position, clicks, strict=True))]  # fmt: skip
    documents = by_document(rows(cells))
    prior = fit_prior(join_curves(documents, curves()).shown)
    assert prior.slope == pytest.approx(2, abs=0.2)
    assert prior.intercept == pytest.approx(0, abs=0.2)
    ratings = [
        judge(documents, JudgePlan(curves(), own))["rating"].to_numpy()
        for own in (prior, fit_prior(join_curves(documents, curves()).shown, "log"))
    ]
    errors = [np.square(rating - truth).mean() for rating in ratings]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("sessions", [3, 30])
def test_intervals_contain_the_truth_95_times_in_100(sessions):
    truth, documents = simulate(np.random.default_rng(sessions), (A, B), 4000, sessions)
    prior = fit_prior(join_curves(documents, curves()).shown)
    table = judge(documents, JudgePlan(curves(), prior))
    rating, lower, upper = (table[name].to_numpy() for name in ("rating", "lower", "upper"))
    covered = (lower <= truth) & (truth <= upper)
    clicks = table["clicks"].to_numpy()
    few = clicks <= np.median(clicks)
    for part in (covered, covered[few], covered[~few]):
        assert part.mean() == pytest.approx(0.95, abs=4 * np.sqrt(0.05 * 0.95 / part.size))
    # better than clicks over examined impressions
    errors = rating - truth, clicks / table["examined"].to_numpy() - truth
    assert np.square(errors[0]).mean() < np.square(errors[1]).mean()


def test_documents_that_are_clicked_whenever_examined_have_intervals_up_to_1():
    rng = np.random.default_rng(11)
    truth = np.where(rng.random(4000) < 0.05, 1.0, rng.beta(A, B, 4000))
    clicks = rng.binomial(60, 0.4 * truth)
    cells = [("q", f"{n:05d}", None, 3, int(c), 60) for n, c in enumerate(clicks)]
    documents = by_document(rows(cells))
    prior = fit_prior(join_curves(documents, curves()).shown)
    assert prior.one == pytest.approx(0.05, abs=0.015)
    table = judge(documents, JudgePlan(curves(), prior))
    lower, upper = table["lower"].to_numpy(), table["upper"].to_numpy()
    covered = (lower <= truth) & (truth <= upper)
    for part in (covered[truth == 1], covered[truth < 1]):
        assert part.mean() > 0.93
    assert prior.below(np.array([0.9999, 1.0])) == pytest.approx([1 - prior.one, 1], abs=0.01)


def test_a_log_without_clicks_has_no_prior():
    clicked = by_document(rows([("q", "x", None, 1, 0, 10)]))
    with pytest.raises(InvalidData, match="none of the documents shown has a click"):
        fit_prior(join_curves(clicked, curves()).shown)


def test_documents_of_one_relevance_give_a_narrow_prior_within_its_bounds():
    cells = [("q", f"{n}", None, 1, 300, 1000) for n in range(50)]
    prior = fit_prior(join_curves(by_document(rows(cells)), curves()).shown)
    assert prior.mean == pytest.approx(0.3, abs=0.01)
    assert prior.strength <= BOUNDS[1] * (1 + 1e-9)
