"""kappa, phi and beta from histograms within rankings, on simulated clicks with known truth."""

import numpy as np
import pytest

from tests.support.pair_samples import histograms
from ulr.experiments.buckets import parse_bucket, permutation
from ulr.kernels.within_rankings import add_rankings
from ulr.propensity.kappa import estimate_kappa
from ulr.propensity.rankings import RankingTally, swap_buckets
from ulr.propensity.stopping import estimate_stopping
from ulr.simulate.browsing import Cascade, Continuous, Independent, RowSkipping, power_curve
from ulr.simulate.clicks import ClickModel, relevance_of, trust_curve

K = 6
BUCKETS = ["1:2", "1:4", "2:5", "1,2:3,6"]
THETA = power_curve(K, 0.6)
BITS = [tuple(int(b) for b in np.binary_repr(p, K)[::-1]) for p in range(1 << K)]
BROWSING = {
    "independent": Independent(THETA),
    "continuous": Continuous(THETA),
    "row skipping": RowSkipping(0.3, np.full(K, 0.85), 2),
}


def sums_of(browsing, *, queries=1200, sessions=40, trust=True, buckets=BUCKETS, seed=0):
    """Rankings with a Poisson number of sessions, each query in one bucket, with both arms."""
    rng = np.random.default_rng(seed)
    negative = trust_curve(K, 0.05, 0.25) if trust else np.zeros(K)
    model = ClickModel(browsing, np.full(K, 0.95), negative)
    relevance = relevance_of(rng.integers(0, 5, (queries, K)), 4, 0.1)
    groups, block, arm = [], [], []
    for q in range(queries):
        bucket = int(rng.integers(len(buckets)))
        for swapped in (0, 1):
            order = permutation(parse_bucket(buckets[bucket]), K) if swapped else list(range(K))
            pages = int(rng.poisson(sessions / 2))
            clicks = model.draw(rng, np.broadcast_to(relevance[q][order], (pages, K)))
            counts = np.bincount(clicks @ (1 << np.arange(K)), minlength=1 << K)
            groups.append((K, {BITS[p]: int(counts[p]) for p in np.flatnonzero(counts)}))
            block.append(q % 32)
            arm.append(2 * bucket + swapped)
    tally = RankingTally(K, 32, buckets)
    sums = tally.empty()
    patterns = histograms(groups).patterns
    add_rankings(patterns, np.array(block), np.array(arm), tally.moved(), sums)
    psi = model.truth(relevance, np.full(queries, 1 / queries))[0]
    theta = np.diag(psi)
    return sums, psi / np.outer(theta, theta)


@pytest.mark.parametrize("sessions", [3, 40])
@pytest.mark.parametrize("name", BROWSING)
def test_kappa_is_recovered_under_trust_bias_also_with_few_sessions_per_ranking(name, sessions):
    sums, truth = sums_of(BROWSING[name], sessions=sessions, queries=48_000 // sessions // 2)
    kappa = estimate_kappa(sums.pairs, min_support=50)
    k, v = np.triu_indices(K, 1)
    error = (kappa.value - truth)[k, v] / kappa.standard_error[k, v]
    assert np.sqrt(np.mean(error**2)) < 1.8
    assert kappa.standard_error[k, v].max() < 0.25
    np.testing.assert_array_equal(kappa.value, kappa.value.T)


def test_a_pair_with_little_support_takes_the_kappa_of_its_upper_position():
    sums, truth = sums_of(BROWSING["continuous"])
    support = estimate_kappa(sums.pairs, min_support=1).support
    least = int(np.sort(support[np.triu_indices(K, 1)])[2]) + 1
    kappa = estimate_kappa(sums.pairs, min_support=least)
    imputed = [(k, v) for k in range(1, K) for v in range(k + 1, K + 1) if kappa.is_imputed(k, v)]
    assert len(imputed) == 3
    for k, v in imputed:
        others = [kappa.value[k - 1, u - 1] for u in range(k + 1, K + 1) if (k, u) not in imputed]
        if others:
            assert min(others) <= kappa.value[k - 1, v - 1] <= max(others)
            assert kappa.value[k - 1, v - 1] == pytest.approx(truth[k - 1, v - 1], rel=0.25)
        else:
            assert kappa.value[k - 1, v - 1] == 1
    nothing = estimate_kappa(np.zeros_like(sums.pairs), min_support=1)
    assert (nothing.value == 1).all()
    assert np.isnan(nothing.standard_error).all()


@pytest.mark.parametrize(("phi", "beta"), [(0.2, 0.8), (0.7, 0.95)])
@pytest.mark.parametrize("sessions", [4, 40])
def test_phi_and_beta_of_users_who_stop_are_recovered(phi, beta, sessions):
    sums, _ = sums_of(
        Cascade(phi, beta), trust=False, sessions=sessions, queries=48_000 // sessions
    )
    found = estimate_stopping(sums, BUCKETS, min_support=100)
    assert abs(found.phi - phi) < 4 * found.phi_error < 0.15
    assert abs(found.beta - beta) < 4 * found.beta_error < 0.15
    assert found.stops(0.001)


def test_users_who_always_stop_have_phi_1_and_no_beta():
    """No click is seen below another, so no weight can stand for those that are missing."""
    sums, _ = sums_of(Cascade(1.0, 0.9), trust=False)
    found = estimate_stopping(sums, BUCKETS, min_support=100)
    assert found.phi == 1
    assert np.isnan(found.beta)
    assert found.stops(0.001)


@pytest.mark.parametrize("name", BROWSING)
def test_no_phi_is_found_where_clicks_do_not_stop_users(name):
    sums, _ = sums_of(BROWSING[name])
    assert not estimate_stopping(sums, BUCKETS, min_support=100).stops(0.001)


def test_intervals_of_phi_and_beta_cover_the_truth():
    z = []
    for seed in range(12):
        sums, _ = sums_of(Cascade(0.4, 0.85), queries=300, sessions=20, trust=False, seed=seed)
        found = estimate_stopping(sums, BUCKETS, min_support=10)
        z += [(found.phi - 0.4) / found.phi_error, (found.beta - 0.85) / found.beta_error]
    assert 0.6 < np.sqrt(np.mean(np.square(z))) < 1.5


def test_without_swap_buckets_there_is_no_beta_and_without_clicks_no_phi():
    sums, _ = sums_of(Cascade(0.4, 0.85), queries=300)
    empty = RankingTally(K, 32, []).empty()
    found = estimate_stopping(empty._replace(stops=sums.stops), [], min_support=10)
    assert np.isnan(found.beta)
    assert found.phi == pytest.approx(0.4, abs=0.1)
    assert estimate_stopping(empty, [], min_support=10) is None


def test_only_swap_buckets_within_the_positions_have_arms():
    names = ["1:9", "shuffle", None, "1:3", "1,2:3,4", "shuffle:4"]
    assert swap_buckets(names, 4) == ["1,2:3,4", "1:3"]
    tally = RankingTally(4, 2, ["1,2:3,4", "1:3"])
    assert tally.moved().tolist() == [[0, 1, 2, 3]] * 2 + [[0, 2, -1, -1]] * 2
    values = np.arange(tally.flat(tally.empty()).size)
    np.testing.assert_array_equal(tally.flat(tally.unflat(values)), values)
