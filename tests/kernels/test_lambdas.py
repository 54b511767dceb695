"""Lambda gradients: oracle, finite differences, extremes, invariances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import oracle_pairs as oracle
from tests.support.pair_samples import group_lists, random_pairs
from ulr.errors import UserError
from ulr.kernels import threads
from ulr.kernels.lambdas import lambda_gradients
from ulr.kernels.lanes import LANES
from ulr.kernels.layout import concat_pairs
from ulr.kernels.order import SORT, count_ranks, rank_descending, rank_lanes
from ulr.kernels.pair_runs import pair_runs


def gradients(scores, pairs, dtype=np.float64, **options):
    grad, hess = np.full(pairs.rows, np.nan, dtype), np.full(pairs.rows, np.nan, dtype)
    lambda_gradients(scores, pair_runs(pairs), grad, hess, **options)
    return grad, hess


def oracle_gradients(scores, pairs, **options):
    grad, hess = np.zeros(pairs.rows), np.zeros(pairs.rows)
    for rows, _, listed in group_lists(pairs):
        g, h = oracle.lambda_gradient(scores[rows].tolist(), listed, **options)
        np.add.at(grad, rows, g)
        np.add.at(hess, rows, h)
    return grad, hess


@pytest.mark.parametrize("sigma", [1.0, 0.5, 2.0])
@pytest.mark.parametrize("truncation", [30, 3])
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("objective", ["lambdarank", "ranknet"])
def test_kernel_equals_the_plain_loop(sigma, truncation, norm, objective):
    rng = np.random.default_rng(1)
    pairs = random_pairs(rng)
    scores = rng.normal(size=pairs.rows).round(1)  # rounded: some ties
    got = gradients(
        scores, pairs, sigmoid=sigma, truncation_level=truncation, norm=norm, objective=objective
    )
    want = oracle_gradients(
        scores, pairs, sigma=sigma, truncation=truncation, norm=norm, objective=objective
    )
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.0, 1e-9, 1.0, 50.0, 500.0]))
@settings(max_examples=40, deadline=None)
def test_kernel_equals_the_plain_loop_at_any_scale(seed, scale):
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, queries=3)
    scores = scale * rng.normal(size=pairs.rows)
    got = gradients(scores, pairs)
    np.testing.assert_allclose(got, oracle_gradients(scores, pairs), rtol=1e-8, atol=1e-12)


@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.0, 1.0, 50.0]),
    truncation=st.sampled_from([30, 4]),
    max_docs=st.sampled_from([3, 12, 40]),
    share=st.sampled_from([0.05, 0.6, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_on_the_grid_kernel_and_plain_loop_agree_to_the_bit(
    seed, scale, truncation, max_docs, share
):
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, queries=2, max_docs=max_docs, share=share)
    scores, grid = scale * rng.normal(size=pairs.rows).round(1), 2.0**-20
    got = gradients(scores, pairs, np.float32, truncation_level=truncation, grid=grid)
    want = oracle_gradients(scores, pairs, truncation=truncation)
    np.testing.assert_array_equal(got, (np.rint(np.array(want) / grid) * grid).astype(np.float32))


def test_gradient_is_the_slope_of_the_loss_with_ranks_frozen():
    rng = np.random.default_rng(2)
    pairs = random_pairs(rng, queries=1, max_groups=1, max_docs=12, share=1.0)
    scores, sigma, step = rng.normal(size=pairs.rows), 1.3, 1e-5
    rows, _, listed = next(group_lists(pairs))
    rank = oracle.ranks(scores[rows].tolist())
    gaps = [oracle.discount_gap(rank, i, j) for i, j, _, _ in listed]
    grad, _ = gradients(scores, pairs, sigmoid=sigma)
    for place, row in enumerate(rows):
        up, down = scores[rows].copy(), scores[rows].copy()
        up[place] += step
        down[place] -= step
        rise = oracle.pair_loss(up, listed, gaps, sigma) - oracle.pair_loss(
            down, listed, gaps, sigma
        )
        assert grad[row] == pytest.approx(rise / (2 * step), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_finite_score_gives_nan_or_infinity(norm, dtype):
    rng = np.random.default_rng(3)
    pairs = random_pairs(rng, queries=30)
    values = np.array([1e30, -1e30, 1.7e308, -1.7e308, 0.0, 1e-300, 700.0, -700.0])
    scores = rng.choice(values, size=pairs.rows)
    with np.errstate(over="ignore"):
        got = gradients(scores, pairs, dtype, norm=norm, grid=2.0**-20)
    assert np.isfinite(got).all()


def test_a_list_whose_exponentials_underflow_is_still_exact():
    rng = np.random.default_rng(4)
    pairs = random_pairs(rng, queries=4)
    scores = np.where(rng.random(pairs.rows) < 0.5, -1000.0, 0.0) + rng.normal(size=pairs.rows)
    got = gradients(scores, pairs)
    np.testing.assert_allclose(got, oracle_gradients(scores, pairs), rtol=1e-9, atol=1e-12)


def test_long_lists_are_sorted_like_short_ones():
    rng = np.random.default_rng(5)
    pairs = random_pairs(rng, queries=2, max_docs=200, max_groups=1, share=0.02)
    scores = rng.integers(0, 20, size=pairs.rows).astype(float)
    got = gradients(scores, pairs, truncation_level=1000)
    want = oracle_gradients(scores, pairs, truncation=1000)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=150))
@settings(deadline=None)
def test_ranks_are_stable_whether_sorted_or_counted(values):
    scores = np.array(values, float)
    n = scores.size
    order, spare, rank = (np.empty(n, np.int32) for _ in range(3))
    rank_descending(scores, n, order, spare)
    count_ranks(scores, n, rank)
    assert order.tolist() == sorted(range(n), key=lambda d: -values[d])
    assert rank[order].tolist() == list(range(n))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.randoms())
@settings(deadline=None)
def test_ranks_of_lanes_break_ties_by_index(values, random):
    check_ranks_of_lanes(values, random.sample(range(len(values)), len(values)))


def test_ranks_of_lanes_are_sorted_in_long_lists():
    rng = np.random.default_rng(10)
    check_ranks_of_lanes(rng.integers(0, 300, 2 * SORT).tolist(), rng.permutation(2 * SORT))


def check_ranks_of_lanes(values, index):
    n = len(values)
    scores, places, rank, work = (np.zeros(n + LANES) for _ in range(4))
    scores[:n], places[:n] = values, index
    rank_lanes(scores, places, n, rank, work, np.empty((2, n), np.int32))
    order = sorted(range(n), key=lambda d: (-values[d], index[d]))
    assert [int(rank[d]) for d in order] == list(range(n))


def test_threads_do_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(threads, "MIN_COST", 1.0)
    rng = np.random.default_rng(6)
    pairs = random_pairs(rng, queries=50)
    scores = rng.normal(size=pairs.rows)
    assert threads.query_ranges(np.arange(51)).size == threads.thread_count() + 1
    results = []
    for count in (1, 0):
        threads.use_threads(count)
        results.append(gradients(scores, pairs))
    np.testing.assert_array_equal(results[1], results[0])


def test_concatenated_tables_have_the_gradients_of_their_parts():
    rng = np.random.default_rng(7)
    parts = [random_pairs(rng, queries=3) for _ in range(3)]
    scores = [rng.normal(size=p.rows) for p in parts]
    apart = np.hstack([gradients(s, p) for s, p in zip(scores, parts, strict=True)])
    joined = gradients(np.concatenate(scores), concat_pairs(parts))
    np.testing.assert_array_equal(joined, apart)
    backwards = gradients(np.concatenate(scores[::-1]), concat_pairs(parts[::-1]))
    apart = np.hstack([gradients(s, p) for s, p in zip(scores[::-1], parts[::-1], strict=True)])
    np.testing.assert_array_equal(backwards, apart)


def test_every_value_is_rounded_to_the_nearest_multiple_of_the_grid():
    rng = np.random.default_rng(8)
    pairs = random_pairs(rng, queries=20)
    scores, grid = rng.normal(size=pairs.rows), 2.0**-20
    plain, on_grid = gradients(scores, pairs), gradients(scores, pairs, np.float32, grid=grid)
    for exact, rounded in zip(plain, on_grid, strict=True):
        steps = rounded.astype(np.float64) / grid
        assert (steps == np.rint(steps)).all()
        assert np.abs(exact - rounded).max() <= grid / 2 + 2**-24 * np.abs(exact).max()


def test_wrong_shapes_and_objectives_are_refused():
    pairs = pair_runs(random_pairs(np.random.default_rng(9)))
    buffer = np.empty(pairs.rows)
    with pytest.raises(UserError, match="scores has shape"):
        lambda_gradients(np.zeros(pairs.rows + 1), pairs, buffer, buffer)
    with pytest.raises(UserError, match="expected one of lambdarank, ranknet"):
        lambda_gradients(np.zeros(pairs.rows), pairs, buffer, buffer, objective="map")
