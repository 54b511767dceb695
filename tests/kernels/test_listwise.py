"""Gradients of the softmax losses: oracle, finite differences, order and threads."""

import numpy as np
import pytest

from tests.support import oracle_lists as oracle
from tests.support.pair_samples import random_pairs
from ulr.kernels import threads
from ulr.kernels.layout import concat_pairs
from ulr.kernels.listwise import MAX_RATIO, list_gradients, position_gradients
from ulr.kernels.losses import UNITS

LOGITS = np.array([0.0, -0.5, -1.2, -1.5])  # fewer bins than positions: the rest is lumped
WEIGHTS = np.exp(LOGITS[0] - LOGITS)
GRID = 2.0**-30


def lists(pairs):
    """Per list: absolute rows, positions, bins and clicks."""
    for q in range(pairs.queries):
        for g in range(pairs.query_groups[q], pairs.query_groups[q + 1]):
            docs = slice(pairs.group_docs[g], pairs.group_docs[g + 1])
            position = pairs.position[docs]
            rows = pairs.query_rows[q] + pairs.doc_row[docs]
            bins = np.minimum(position - 1, LOGITS.size - 1)
            yield rows, position.tolist(), bins, pairs.clicks[docs].tolist()


def fill(scores, pairs, grid=GRID):
    gradients, hessians = np.zeros(pairs.rows), np.zeros(pairs.rows)
    list_gradients(scores, pairs, WEIGHTS, gradients, hessians, grid=grid)
    return gradients, hessians


def test_gradients_of_the_ranker_equal_the_plain_loop():
    rng = np.random.default_rng(1)
    pairs = random_pairs(rng, queries=12)
    scores = rng.normal(size=pairs.rows)
    want = np.zeros((2, pairs.rows))
    for rows, _, bins, clicks in lists(pairs):
        for side, values in enumerate(oracle.list_gradient(scores[rows], clicks, WEIGHTS[bins])):
            want[side, rows] += values
    np.testing.assert_allclose(fill(scores, pairs), want, atol=2 * GRID)


def test_the_gradient_is_the_finite_difference_of_the_loss():
    rng = np.random.default_rng(2)
    pairs = random_pairs(rng, queries=3)
    scores, step = rng.normal(size=pairs.rows), 1e-5

    def loss(at):
        return sum(oracle.list_loss(at[r], c, WEIGHTS[b]) for r, _, b, c in lists(pairs))

    gradients, hessians = fill(scores, pairs)
    for row in range(pairs.rows):
        up, down = scores.copy(), scores.copy()
        up[row] += step
        down[row] -= step
        assert gradients[row] == pytest.approx((loss(up) - loss(down)) / (2 * step), abs=1e-4)
        slope = fill(up, pairs)[0][row] - fill(down, pairs)[0][row]
        assert hessians[row] == pytest.approx(slope / (2 * step), abs=2e-3)


def test_gradients_of_the_positions_are_finite_differences_of_their_loss():
    rng = np.random.default_rng(3)
    pairs = random_pairs(rng, queries=12)
    scores, step = 1.5 * rng.normal(size=pairs.rows), 1e-5
    ratios = [oracle.relevance_ratios(scores[r], p, MAX_RATIO) for r, p, _, _ in lists(pairs)]
    assert max(map(max, ratios)) == MAX_RATIO

    def loss(logits):
        return sum(
            oracle.list_loss(logits[bins], clicks, v)
            for v, (_, _, bins, clicks) in zip(ratios, lists(pairs), strict=True)
        )

    gradient, hessian = position_gradients(scores, pairs, LOGITS) / UNITS
    for k in range(LOGITS.size):
        up, down = LOGITS.copy(), LOGITS.copy()
        up[k] += step
        down[k] -= step
        assert gradient[k] == pytest.approx((loss(up) - loss(down)) / (2 * step), abs=1e-3)
    # Bins with one document per list have the true Hessian; the last one has its diagonal.
    want = np.zeros(LOGITS.size)
    for v, (_, _, bins, clicks) in zip(ratios, lists(pairs), strict=True):
        np.add.at(want, bins, oracle.list_gradient(LOGITS[bins], clicks, v)[1])
    np.testing.assert_allclose(hessian, want, atol=1e-4)


def test_neither_threads_nor_a_split_into_parts_changes_a_bit(monkeypatch):
    monkeypatch.setattr(threads, "MIN_COST", 1.0)
    rng = np.random.default_rng(4)
    parts = [random_pairs(rng) for _ in range(3)]
    scores = [rng.normal(size=p.rows) for p in parts]
    sums = sum(position_gradients(s, p, LOGITS) for s, p in zip(scores, parts, strict=True))
    apart = np.hstack([fill(s, p) for s, p in zip(scores, parts, strict=True)])
    for count in (1, 0):
        threads.use_threads(count)
        whole = concat_pairs(parts)
        joined = np.concatenate(scores)
        np.testing.assert_array_equal(position_gradients(joined, whole, LOGITS), sums)
        np.testing.assert_array_equal(fill(joined, whole), apart)


def test_extreme_scores_give_finite_gradients():
    pairs = random_pairs(np.random.default_rng(5))
    scores = np.random.default_rng(5).choice([1e30, -1e30, 0.0], size=pairs.rows)
    assert np.isfinite(fill(scores, pairs)).all()
    sums = position_gradients(scores, pairs, LOGITS) / UNITS
    assert np.abs(sums).max() <= MAX_RATIO * pairs.clicks.sum()
