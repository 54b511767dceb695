"""The prior on co-clicks, estimated from the log."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import oracle_pairs as oracle
from tests.support.pair_samples import histograms
from ulr.pairs.prior import co_click_sums, prior_variance
from ulr.simulate.browsing import Continuous, Independent, RowSkipping, power_curve

K = 5
THETA = power_curve(K, 0.8)
PSI = np.where(np.eye(K) > 0, THETA, 0.9 * np.outer(THETA, THETA))
MODELS = {
    "independent": Independent(THETA),
    "continuous": Continuous(THETA),
    "row_skipping": RowSkipping(0.3, np.full(K, 0.9), 2),
}
SESSIONS = 24_000
pattern = st.tuples(*[st.booleans()] * K)
group = st.dictionaries(pattern, st.integers(1, 9), min_size=1, max_size=8)


@given(st.lists(group, min_size=1, max_size=3))
@settings(max_examples=40, deadline=None)
def test_the_sums_equal_plain_loops(groups):
    want = np.zeros(3)
    for patterns in groups:
        sessions = [bits for bits, count in patterns.items() for _ in range(count)]
        want += oracle.co_click_sums(sessions, THETA, PSI)
    counted = histograms([(K, patterns) for patterns in groups])
    got = co_click_sums(counted, np.zeros(len(groups), np.int64), PSI[None])
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def estimated(name, sessions_agree, size):
    """v from groups of `size` sessions of documents with relevance 1/2.

    sessions_agree: in a session either all documents are relevant or none.
    """
    rng, model = np.random.default_rng(4), MODELS[name]
    psi = model.truth(np.ones((1, K)), np.ones(1))
    draw = rng.random((SESSIONS, 1 if sessions_agree else K)) < 0.5
    relevant = np.broadcast_to(draw, (SESSIONS, K))
    clicks = (relevant & model.examine(rng, relevant)).reshape(-1, size, K)
    listed = []
    for page in clicks:
        patterns, counts = np.unique(page, axis=0, return_counts=True)
        listed.append((K, {tuple(p): int(c) for p, c in zip(patterns, counts, strict=True)}))
    return prior_variance(
        co_click_sums(histograms(listed), np.zeros(len(listed), np.int64), psi[None])
    )


@pytest.mark.parametrize("size", [3, 10, 60])
@pytest.mark.parametrize("name", MODELS)
def test_independent_relevance_gives_a_small_variance_under_every_browsing_model(name, size):
    assert estimated(name, False, size) < 0.1


@pytest.mark.parametrize(("size", "least"), [(10, 0.2), (60, 0.7)])
@pytest.mark.parametrize("name", MODELS)
def test_correlated_relevance_gives_a_variance_near_1_under_every_browsing_model(name, size, least):
    """E[r_i r_j] is twice r_i r_j here, so v is 1; groups of few sessions underestimate it."""
    assert least < estimated(name, True, size) < 1.3


def test_without_evidence_the_variance_is_0():
    nothing = co_click_sums(histograms([(K, {(0,) * K: 3})]), np.zeros(1, np.int64), PSI[None])
    assert prior_variance(nothing) == 0.0
    once = co_click_sums(histograms([(K, {(1,) * K: 1})]), np.zeros(1, np.int64), PSI[None])
    assert prior_variance(once) == 0.0  # one session is no evidence of correlation
