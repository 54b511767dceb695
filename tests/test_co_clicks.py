"""The prior on co-clicks that is chosen from the log."""

import numpy as np
import oracle_pairs as oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pair_samples import histograms

from ulr.co_clicks import VARIANCES, best_variance, co_click_gains
from ulr.simulate.browsing import Continuous, Independent, RowSkipping, power_curve

K = 5
THETA = power_curve(K, 0.8)
PSI = np.where(np.eye(K) > 0, THETA, 0.9 * np.outer(THETA, THETA))
MODELS = {
    "independent": Independent(THETA),
    "continuous": Continuous(THETA),
    "row_skipping": RowSkipping(0.3, np.full(K, 0.9), 2),
}
pattern = st.tuples(*[st.booleans()] * K)
group = st.dictionaries(pattern, st.integers(1, 9), min_size=1, max_size=8)


@given(st.lists(group, min_size=1, max_size=3))
@settings(max_examples=40, deadline=None)
def test_gains_are_those_of_the_product_formula(groups):
    want = np.zeros(VARIANCES.size)
    for patterns in groups:
        sessions = [bits for bits, count in patterns.items() for _ in range(count)]
        at = [oracle.co_click_log_likelihood(sessions, THETA, PSI, v) for v in (0, *VARIANCES)]
        want += np.array(at[1:]) - at[0]
    counted = histograms([(K, patterns) for patterns in groups])
    got = co_click_gains(counted, np.zeros(len(groups), np.int64), PSI[None])
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)


def chosen(name, sessions_agree):
    """The choice for 400 queries x 50 sessions of documents with relevance 1/2; where sessions
    agree, all documents of a page are relevant or none is."""
    rng, model = np.random.default_rng(4), MODELS[name]
    psi = model.truth(np.ones((1, K)), np.ones(1))
    draw = rng.random((400 * 50, 1 if sessions_agree else K)) < 0.5
    relevant = np.broadcast_to(draw, (400 * 50, K))
    clicks = (relevant & model.examine(rng, relevant)).reshape(400, 50, K)
    listed = []
    for page in clicks:
        patterns, counts = np.unique(page, axis=0, return_counts=True)
        listed.append((K, {tuple(p): int(c) for p, c in zip(patterns, counts, strict=True)}))
    gains = co_click_gains(histograms(listed), np.zeros(400, np.int64), psi[None])
    return best_variance(gains)


@pytest.mark.parametrize("name", MODELS)
def test_independent_relevance_is_recognised_under_every_way_of_browsing(name):
    assert chosen(name, sessions_agree=False) < 0.05


@pytest.mark.parametrize("name", MODELS)
def test_relevance_that_comes_together_leaves_the_co_clicks_their_say(name):
    """E[r_i r_j] is twice r_i r_j here: g - 1 = 1, so v is near 1."""
    assert 0.25 <= chosen(name, sessions_agree=True) <= 4


def test_nothing_seen_is_taken_as_independent():
    empty = co_click_gains(histograms([(K, {(0,) * K: 3})]), np.zeros(1, np.int64), PSI[None])
    assert best_variance(empty) == 0.0
