"""The pair loss in blocks, and its derivatives by a score scale: oracle, order and threads."""

import numpy as np

from tests.support import oracle_pairs as oracle
from tests.support.pair_samples import group_lists, random_pairs
from ulr.kernels import threads
from ulr.kernels.layout import concat_pairs
from ulr.kernels.losses import UNITS
from ulr.kernels.pair_loss import pair_losses

BLOCKS = 3


def plain_losses(scores, pairs, block, scale, sigma):
    sums = np.zeros(BLOCKS)
    queries = np.repeat(np.arange(pairs.queries), np.diff(pairs.query_groups))
    for q, (rows, _, listed) in zip(queries, group_lists(pairs), strict=True):
        sums[block[q]] += oracle.pair_loss(scale * scores[rows], listed, [1] * len(listed), sigma)
    return sums


def test_losses_and_derivatives_equal_the_plain_loop():
    rng = np.random.default_rng(1)
    pairs = random_pairs(rng, queries=12, signed=True)
    scores, block = rng.normal(size=pairs.rows), np.arange(12) % BLOCKS
    loss, slope, curvature = pair_losses(scores, pairs, block, BLOCKS, sigmoid=1.5, scale=0.7)
    below, at, above = (plain_losses(scores, pairs, block, a, 1.5) for a in (0.699, 0.7, 0.701))
    np.testing.assert_allclose(loss / UNITS, at, atol=12 / UNITS)
    np.testing.assert_allclose(slope / UNITS, (above - below) / 0.002, rtol=1e-4, atol=1e-4)
    second = (above - 2 * at + below) / 0.001**2
    np.testing.assert_allclose(curvature / UNITS, second, rtol=1e-3, atol=1e-2)


def test_neither_threads_nor_a_split_into_parts_changes_a_bit(monkeypatch):
    monkeypatch.setattr(threads, "MIN_COST", 1.0)
    rng = np.random.default_rng(2)
    parts = [random_pairs(rng, queries=10, signed=True) for _ in range(3)]
    scores = [rng.normal(size=p.rows) for p in parts]
    block = np.arange(10) % BLOCKS
    apart = sum(pair_losses(s, p, block, BLOCKS) for s, p in zip(scores, parts, strict=True))
    for count in (1, 0):
        threads.use_threads(count)
        whole = concat_pairs(parts)
        joined = pair_losses(np.concatenate(scores), whole, np.tile(block, 3), BLOCKS)
        np.testing.assert_array_equal(joined, apart)


def test_extreme_scores_give_finite_sums():
    pairs = random_pairs(np.random.default_rng(3), queries=4, signed=False)
    scores = np.random.default_rng(3).choice([1e30, -1e30, 0.0], size=pairs.rows)
    loss, _, curvature = pair_losses(scores, pairs, np.zeros(4, np.int64), 1)
    assert loss >= 0
    assert curvature >= 0
