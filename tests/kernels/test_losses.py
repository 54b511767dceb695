"""Losses by position for t+ and t-: oracle, order and threads."""

import numpy as np

from tests.support import oracle_pairs as oracle
from tests.support.pair_samples import group_lists, random_pairs, run_lists
from ulr.kernels import threads
from ulr.kernels.layout import concat_pairs
from ulr.kernels.losses import UNITS, debias_counts, position_losses
from ulr.kernels.pair_runs import pair_runs

T_PLUS = np.array([1.0, 0.6, 0.4, 0.25])  # fewer bins than positions: the rest is lumped
T_MINUS = np.array([1.0, 0.9, 0.8, 0.7])


def counts(rng, queries=10):
    pairs = random_pairs(rng, queries=queries, signed=False)
    return pairs._replace(u_ij=np.floor(pairs.u_ij), u_ji=np.floor(pairs.u_ji))


def test_sums_equal_the_plain_loop():
    rng = np.random.default_rng(1)
    pairs = counts(rng)
    scores = rng.normal(size=pairs.rows)
    want = np.zeros((2, T_PLUS.size))
    for rows, positions, listed in group_lists(pairs):
        want += oracle.position_losses(
            scores[rows], positions, listed, t_plus=T_PLUS, t_minus=T_MINUS, sigma=1.5
        )
    got = position_losses(scores, pairs, T_PLUS, T_MINUS, sigmoid=1.5) / UNITS
    np.testing.assert_allclose(got, want, atol=pairs.queries / UNITS)


def test_neither_threads_nor_a_split_into_parts_changes_a_bit(monkeypatch):
    monkeypatch.setattr(threads, "MIN_COST", 1.0)
    rng = np.random.default_rng(2)
    parts = [counts(rng) for _ in range(3)]
    scores = [rng.normal(size=p.rows) for p in parts]
    apart = sum(position_losses(s, p, T_PLUS, T_MINUS) for s, p in zip(scores, parts, strict=True))
    for count in (1, 0):
        threads.use_threads(count)
        joined = position_losses(np.concatenate(scores), concat_pairs(parts), T_PLUS, T_MINUS)
        np.testing.assert_array_equal(joined, apart)


def test_extreme_scores_give_finite_sums():
    pairs = counts(np.random.default_rng(3))
    scores = np.random.default_rng(3).choice([1e30, -1e30, 0.0], size=pairs.rows)
    assert (position_losses(scores, pairs, T_PLUS, T_MINUS) >= 0).all()


def test_counts_are_divided_by_the_winners_t_plus_and_the_losers_t_minus():
    pairs = counts(np.random.default_rng(4))
    runs = pair_runs(pairs)
    u_ij, u_ji = np.zeros_like(runs.u_ij), np.zeros_like(runs.u_ji)
    debias_counts(runs, pairs.position, T_PLUS, T_MINUS, u_ij, u_ji)
    divided = run_lists(runs._replace(u_ij=u_ij, u_ji=u_ji))
    for (_, positions, listed), weights in zip(group_lists(pairs), divided, strict=True):
        for i, j, n_ij, n_ji in listed:
            k, v = min(positions[i], 4) - 1, min(positions[j], 4) - 1
            want = n_ij / (T_PLUS[k] * T_MINUS[v]), n_ji / (T_PLUS[v] * T_MINUS[k])
            assert weights[i, j] == tuple(np.float32(want))


def test_a_list_whose_exponentials_underflow_is_still_exact():
    rng = np.random.default_rng(5)
    pairs = counts(rng)
    scores = np.where(rng.random(pairs.rows) < 0.5, -650.0, 0.0) + rng.normal(size=pairs.rows)
    want = np.zeros((2, T_PLUS.size))
    for rows, positions, listed in group_lists(pairs):
        want += oracle.position_losses(
            scores[rows], positions, listed, t_plus=T_PLUS, t_minus=T_MINUS
        )
    got = position_losses(scores, pairs, T_PLUS, T_MINUS) / UNITS
    np.testing.assert_allclose(got, want, atol=pairs.queries / UNITS)
