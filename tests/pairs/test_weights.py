"""Every method against the weights of docs/methods.md section 4, session by session."""

from itertools import permutations
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import oracle_pairs as oracle
from tests.support.pair_samples import histograms
from ulr.config.settings import Method
from ulr.errors import UserError
from ulr.pairs.weighting import weigh_histograms, weigh_labels
from ulr.pairs.weightings import weightings_of
from ulr.pairs.weights import (
    LEARNS_POSITIONS,
    METHOD_NAMES,
    METHODS,
    NEEDS_ALL_PAIRS,
    pattern_theta,
    stopping_of,
    weight_table,
)
from ulr.propensity.examination import Examination
from ulr.simulate.browsing import (
    Cascade,
    Continuous,
    Independent,
    RowSkipping,
    power_curve,
)

K = 6
THETA = power_curve(K, 0.8)
RNG = np.random.default_rng(5)
BELOW = np.minimum.outer(THETA, THETA) * RNG.uniform(0.5, 1.0, (K, K))
PSI = np.where(np.eye(K) > 0, THETA, np.minimum(BELOW, BELOW.T))
KAPPA = RNG.uniform(0.8, 2.0, (K, K))
KAPPA = (KAPPA + KAPPA.T) / 2
PHI, GO_ON = 0.4, 0.8
EXAMINATION = Examination(THETA, PSI, 0.7 * THETA, 0.1 * THETA, KAPPA, PHI, GO_ON)


def dense(pairs, group, n):
    """u as an n x n matrix."""
    u = np.zeros((n, n))
    span = slice(pairs.offsets[group], pairs.offsets[group + 1])
    u[pairs.i[span], pairs.j[span]] = pairs.u_ij[span]
    u[pairs.j[span], pairs.i[span]] = pairs.u_ji[span]
    return u


def weigh(groups, method, session="none", **clipping):
    table = weight_table(method, EXAMINATION, prs_clip=2.0, **clipping)[None]
    raw = weight_table(method, EXAMINATION)[None]
    return weigh_histograms(
        histograms(groups),
        np.zeros(len(groups)),
        table,
        raw,
        all_pairs=method in NEEDS_ALL_PAIRS,
        session=session,
        counts=[weightings_of(method)[0].counts],
        stopping=stopping_of([EXAMINATION], **clipping),
    )


pattern = st.tuples(*[st.booleans()] * K)


@pytest.mark.parametrize("session", ["none", "idcg"])
@pytest.mark.parametrize("method", METHODS)
@given(st.dictionaries(pattern, st.integers(1, 9), min_size=1, max_size=8))
@settings(max_examples=15, deadline=None)
def test_the_weights_of_a_group_are_the_sum_over_its_sessions(method, session, patterns):
    want = np.zeros((K, K))
    for bits, count in patterns.items():
        name = "counts" if method in LEARNS_POSITIONS else method
        u = oracle.session_weights(
            bits, THETA, PSI, name, prs_clip=2.0, alpha=EXAMINATION.alpha, beta=EXAMINATION.beta,
            kappa=KAPPA, stop=(PHI, GO_ON),
        )  # fmt: skip
        weight = 1 / oracle.ideal_dcg(bits) if session == "idcg" and any(bits) else 1
        want += weight * count * np.array(u)
    pairs, _ = weigh([(K, patterns)], method, session)
    np.testing.assert_allclose(dense(pairs, 0, K), want, rtol=1e-5, atol=1e-4)


def test_clicks_below_position_64_are_counted():
    n = 130
    bits = tuple(k in {0, 63, 64, 127, 129} for k in range(n))
    wide = Examination(np.ones(n), np.ones((n, n)))
    table = weight_table("naive", wide)[None]
    pairs, _ = weigh_histograms(histograms([(n, {bits: 3})]), np.zeros(1), table, table)
    clicks = np.array(bits)
    np.testing.assert_array_equal(dense(pairs, 0, n), 3 * np.outer(clicks, ~clicks))


def test_more_sessions_scale_the_weights():
    few, _ = weigh([(K, {(1, 0, 0, 1, 0, 0): 1})], "joint")
    many, _ = weigh([(K, {(1, 0, 0, 1, 0, 0): 10**9})], "joint")
    np.testing.assert_array_equal(few.i, many.i)
    np.testing.assert_allclose(many.u_ij, few.u_ij * 1e9, rtol=1e-6)


def test_groups_weighed_separately_equal_groups_weighed_together():
    groups = [(3, {(1, 0, 1): 2}), (1, {(1,): 1}), (5, {(0,) * 5: 7}), (2, {(0, 1): 1})]
    together, _ = weigh(groups, "joint")
    for g, group in enumerate(groups):
        alone, _ = weigh([group], "joint")
        np.testing.assert_array_equal(dense(together, g, group[0]), dense(alone, 0, group[0]))


def test_labels_prefer_the_higher_known_grade():
    groups = histograms([(3, {(0, 0, 0): 1}), (2, {(0, 0): 1})])
    pairs = weigh_labels(groups, np.array([1, 2, -1, 0, 0], np.int32))
    assert pairs.offsets.tolist() == [0, 1, 1]
    assert pairs.u_ij[0] == 0
    assert pairs.u_ji[0] == pytest.approx((3 - 1) / 15)  # gains 2^y - 1, over that of a 4


@pytest.mark.parametrize(("k", "v"), list(permutations(range(K), 2)))
def test_a_times_expected_b_is_the_identity(k, v):
    """Kurennoy eq. 14, with A's second and third rows taken from the joint table."""
    t_k, t_v, both = THETA[k], THETA[v], PSI[k, v]
    expected_b = np.array(
        [
            [both, 0, 0, 0],
            [t_k - both, t_k, 0, 0],
            [t_v - both, 0, t_v, 0],
            [1 - t_k - t_v + both, 1 - t_k, 1 - t_v, 1],
        ]
    )
    joint = weight_table("joint", EXAMINATION)
    np.testing.assert_allclose(joint[:, k, v] @ expected_b, [0, 1, 0, 0], atol=1e-12)
    mirrored = joint[[0, 2, 1, 3], v, k]
    np.testing.assert_allclose(mirrored @ expected_b, [0, 0, 1, 0], atol=1e-12)


MODELS = {
    "independent": Independent(THETA),
    "continuous": Continuous(THETA),
    "row skipping": RowSkipping(0.3, np.full(K, 0.85), 2),
}


@pytest.mark.parametrize("name", MODELS)
def test_joint_is_unbiased_and_robust_and_prs_are_biased_as_predicted(name):
    """E[u_ij] is r_i (1 - r_j) for joint. For robust E = r_i (1 - r_j psi / theta_i), too much by
    r_i r_j (1 - psi / theta_i); for prs that times theta_j."""
    sessions, rng = 400_000, np.random.default_rng(11)
    relevance = np.array([0.9, 0.2, 0.6, 0.4, 0.8, 0.5])
    model = MODELS[name]
    psi = model.truth(np.ones((1, K)), np.ones(1))
    examination = Examination(np.diag(psi).copy(), psi)
    relevant = rng.random((sessions, K)) < relevance
    clicks = relevant & model.examine(rng, relevant)
    patterns, counts = np.unique(clicks, axis=0, return_counts=True)
    group = (K, {tuple(p): int(c) for p, c in zip(patterns, counts, strict=True)})

    theta, r = examination.theta[:, None], relevance
    truth = np.outer(r, 1 - r)
    robust = r[:, None] * (1 - r * psi / theta)
    want = {"joint": truth, "robust": robust, "prs": robust * examination.theta}
    off = ~np.eye(K, dtype=bool)
    for method, expected in want.items():
        table = weight_table(method, examination)[None]
        pairs, _ = weigh_histograms(histograms([group]), np.zeros(1), table, table)
        mean = dense(pairs, 0, K) / sessions
        # Five standard errors of a mean of weights no larger than the table's largest.
        spread = np.sqrt((table[0] ** 2).max(axis=0) / sessions) * 5
        assert (np.abs(mean - expected)[off] < spread[off]).all(), method
    assert np.abs(robust - truth)[off].max() > 0.1


@pytest.mark.parametrize("name", MODELS)
def test_the_direction_of_robust_plus_is_unbiased_and_no_weight_is_negative(name):
    """E[u_ij - u_ji] is r_i - r_j, and E[u_ij] is r_i (1 - r_j psi / max(theta_i, theta_j))."""
    sessions, rng = 400_000, np.random.default_rng(13)
    relevance = np.array([0.9, 0.2, 0.6, 0.4, 0.8, 0.5])
    psi = MODELS[name].truth(np.ones((1, K)), np.ones(1))
    theta = np.diag(psi).copy()
    relevant = rng.random((sessions, K)) < relevance
    clicks = relevant & MODELS[name].examine(rng, relevant)
    patterns, counts = np.unique(clicks, axis=0, return_counts=True)
    group = (K, {tuple(p): int(c) for p, c in zip(patterns, counts, strict=True)})
    table = weight_table("robust+", Examination(theta, psi))[None]
    assert table.min() >= 0
    pairs, _ = weigh_histograms(histograms([group]), np.zeros(1), table, table)
    mean = dense(pairs, 0, K) / sessions
    want = relevance[:, None] * (1 - relevance * psi / np.maximum.outer(theta, theta))
    spread = 5 / theta.min() / np.sqrt(sessions)
    off = ~np.eye(K, dtype=bool)
    assert np.abs(mean - want)[off].max() < spread
    direction = (mean - mean.T) - (relevance[:, None] - relevance)
    assert np.abs(direction).max() < 2 * spread
    robust = weight_table("robust", Examination(theta, psi))[None]
    pairs, _ = weigh_histograms(histograms([group]), np.zeros(1), robust, robust)
    other = dense(pairs, 0, K) / sessions
    assert np.abs((other - other.T) - (relevance[:, None] - relevance)).max() > 4 * spread


def shrunk_joint(patterns, examination, variance):
    table = weight_table("joint", examination)[None]
    pairs, _ = weigh_histograms(
        histograms([(K, patterns)]), np.zeros(1), table, table,
        psi=examination.psi[None], co_click_variance=variance,
    )  # fmt: skip
    return dense(pairs, 0, K)


def test_shrunk_co_clicks_are_a_posterior_mean():
    patterns = {(1, 1, 0, 0, 0, 0): 3, (1, 0, 0, 0, 0, 0): 5, (0, 1, 0, 0, 0, 0): 1, (0,) * K: 4}
    sessions, c_0, c_1, c_01, v = 13, 8, 4, 3, 0.7
    m = PSI[0, 1] * c_0 * c_1 / (PSI[0, 1] + (sessions - 1) * THETA[0] * THETA[1])
    shrunk = m * (1 + v * c_01) / (1 + v * m)
    got = shrunk_joint(patterns, EXAMINATION, v)
    assert got[0, 1] == pytest.approx(c_0 / THETA[0] - shrunk / PSI[0, 1], rel=1e-6)
    assert got[1, 0] == pytest.approx(c_1 / THETA[1] - shrunk / PSI[0, 1], rel=1e-6)
    plain, _ = weigh([(K, patterns)], "joint")
    np.testing.assert_allclose(got - got.T, dense(plain, 0, K) - dense(plain, 0, K).T, atol=1e-5)
    np.testing.assert_allclose(shrunk_joint(patterns, EXAMINATION, np.inf), dense(plain, 0, K))


def test_shrinkage_leaves_a_single_session_unchanged_for_any_session_weight():
    """Two clicks in one session: their expected co-clicks are 1."""
    table = weight_table("joint", EXAMINATION)[None]
    shrunk, plain = (
        weigh_histograms(
            histograms([(K, {(1, 1, 0, 0, 0, 0): 1})]), np.zeros(1), table, table,
            session="idcg", psi=PSI[None], co_click_variance=v,
        )[0] for v in (0.0, np.inf)
    )  # fmt: skip
    np.testing.assert_allclose(shrunk.u_ij, plain.u_ij, rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_shrinkage_keeps_joint_unbiased_and_reduces_its_variance_where_co_clicks_are_rare(name):
    """Relevance is independent here, so v = 0 has the same mean."""
    groups, sessions, rng = 3000, 16, np.random.default_rng(12)
    relevance = np.array([0.9, 0.2, 0.6, 0.4, 0.8, 0.5])
    model = MODELS[name]
    psi = model.truth(np.ones((1, K)), np.ones(1))
    examination = Examination(np.diag(psi).copy(), psi)
    relevant = rng.random((groups * sessions, K)) < relevance
    clicks = (relevant & model.examine(rng, relevant)).reshape(groups, sessions, K)
    listed = []
    for page in clicks:
        patterns, counts = np.unique(page, axis=0, return_counts=True)
        listed.append((K, {tuple(p): int(c) for p, c in zip(patterns, counts, strict=True)}))
    table = weight_table("joint", examination)[None]
    weights = {}
    for v in (0.0, np.inf):
        pairs, _ = weigh_histograms(
            histograms(listed), np.zeros(groups), table, table,
            psi=psi[None], co_click_variance=v,
        )  # fmt: skip
        weights[v] = np.stack([dense(pairs, g, K) for g in range(groups)]) / sessions
    off = ~np.eye(K, dtype=bool)
    truth = np.outer(relevance, 1 - relevance)
    mean, spread = weights[0.0].mean(axis=0), weights[0.0].std(axis=0) / np.sqrt(groups)
    assert (np.abs(mean - truth)[off] < 5 * spread[off]).all()
    if name == "independent":  # where co-clicks are rarest
        assert weights[0.0][:, 4, 5].std() < weights[np.inf][:, 4, 5].std()


def test_clipping_bounds_the_weights_and_health_gives_the_clipped_share():
    patterns = {(1, 0, 0, 0, 0, 1): 4, (0, 0, 0, 0, 0, 1): 2}
    pairs, health = weigh([(K, patterns)], "robust", weight_cap=2.0)
    assert pairs.u_ij.max() <= 2.0 * 6
    (_, whole), *_, (position, deep) = health.rows()
    assert position == 6
    assert deep["largest_weight"] == 2.0
    raw = 1 / THETA[5]
    assert deep["share_clipped"] == pytest.approx(1 - 2.0 / raw)
    # Six sessions, each with weight 2 on the documents below it: 4 sessions x 4, 2 x 5.
    assert deep["effective_pairs"] == pytest.approx(4 * 4 + 2 * 5)
    top = 4 * 4 * 1.0
    share = 1 - (top + 26 * 2.0) / (top + 26 * raw)
    assert whole["share_clipped"] == pytest.approx(share)
    _, again = weigh([(K, patterns)] * 2, "robust", weight_cap=2.0)
    np.testing.assert_allclose((health + health).columns, again.columns)


def test_clipping_bounds_the_value_of_a_click_after_clicks():
    """Positions 1, 3 and 6 clicked: the last one counts as 1 / (0.8^5 0.6^2) = 8.48 clicks."""
    patterns = {(1, 0, 1, 0, 0, 1): 3}
    p = [GO_ON**k * (1 - PHI) ** m for k, m in ((0, 0), (2, 1), (5, 2))]
    for floor, cap, limit in ((0.0, np.inf, np.inf), (0.25, np.inf, 4.0), (0.0, 4.0, 4.0)):
        value = [min(1 / x, limit) for x in p]
        pairs, health = weigh([(K, patterns)], "cascade", propensity_floor=floor, weight_cap=cap)
        u = dense(pairs, 0, K)
        assert u[5, 1] == pytest.approx(3 * value[2])  # position 2 was not clicked
        assert u[0, 5] == pytest.approx(3 * (value[0] - value[2]))
        assert u[5, 0] == u[5, 2] == 0
        rows = dict(health.rows())
        assert rows[6]["largest_weight"] == pytest.approx(value[2])
        assert rows[6]["share_clipped"] == pytest.approx(1 - value[2] * p[2])
        assert rows[6]["effective_pairs"] == pytest.approx(3 * 3)  # three unclicked documents
        first = 3 * np.array([value[0]] * 3 + [value[1] - value[0], value[2] - value[0]])
        weights = first / 3
        size = (3 * weights.sum()) ** 2 / (3 * (weights**2).sum())
        assert rows[1]["effective_pairs"] == pytest.approx(size)


def test_the_propensity_floor_bounds_both_theta_and_psi():
    table = weight_table("joint", EXAMINATION, propensity_floor=0.5)
    assert table.max() <= 1 / 0.5
    assert table.min() >= 1 - 1 / 0.5


def test_the_second_moment_of_a_click_after_clicks_is_r_over_q():
    phi, beta, r = 0.6, 0.9, np.array([0.9, 0.2, 0.6, 0.4, 0.8, 0.5])
    rng = np.random.default_rng(3)
    attractive = rng.random((1_000_000, K)) < r
    clicks = attractive & Cascade(phi, beta).examine(rng, attractive)
    above = np.cumsum(clicks, axis=1) - clicks
    p = beta ** np.arange(K) * (1 - phi) ** above
    psi = Cascade(phi, beta).truth(r[None], np.ones(1))
    q = pattern_theta(Examination(np.diag(psi), psi, None, None, None, phi, beta))
    np.testing.assert_allclose(np.mean((clicks / p) ** 2, axis=0), r / q, rtol=0.05)
    np.testing.assert_array_equal(pattern_theta(Examination(THETA, PSI)), THETA)


def test_the_settings_accept_every_method():
    assert set(get_args(Method)) == set(METHOD_NAMES)


def test_errors_name_the_method_or_the_position():
    with pytest.raises(UserError, match=r"expected one of auto, naive, robust"):
        weight_table("best", EXAMINATION)
    with pytest.raises(UserError, match=r"alpha and beta.*propensities\.estimator=affine"):
        weight_table("affine", Examination(THETA, PSI))
    with pytest.raises(UserError, match="stops_after_click"):
        weight_table("cascade", Examination(THETA, PSI))
    never = np.array([[1.0, 0.0], [0.0, 0.5]])  # psi = 0: users who take one document only
    assert np.isfinite(weight_table("robust", Examination(np.array([1.0, 0.5]), never))).all()
    with pytest.raises(UserError, match="psi at position 1, 2"):
        weight_table("joint", Examination(np.array([1.0, 0.5]), never))
    with pytest.raises(UserError, match="theta at position 2"):
        weight_table("robust", Examination(np.array([1.0, 0.0]), np.ones((2, 2))))
    alpha = np.where(np.arange(K) == 3, 0.0, EXAMINATION.alpha)
    with pytest.raises(UserError, match="alpha at position 4"):
        weight_table("affine", Examination(THETA, PSI, alpha, EXAMINATION.beta))
    assert np.isfinite(
        weight_table("joint", Examination(THETA, PSI, alpha, EXAMINATION.beta))
    ).all()
    with pytest.raises(UserError, match=r"8 documents.*6 positions"):
        weigh([(8, {(1,) * 8: 1})], "naive")
