from __future__ import annotations

import numpy as np
import pytest

from ulr.training.distributed.balance import balance


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_rows_and_pairs_are_even_where_sizes_are_not(workers):
    rng = np.random.default_rng(workers)
    rows = (1 + rng.pareto(1.2, 6000) * 5).astype(np.int64).clip(1, 400)
    pairs = (rows * rows * rng.uniform(0.1, 0.5, rows.size)).astype(np.int64)
    part = balance(rows, pairs, workers)
    load = rows / rows.sum() + pairs / pairs.sum()
    shares = np.bincount(part, load, workers)
    assert shares.max() <= shares.mean() * 1.01
    assert set(part) == set(range(workers))


def test_a_few_huge_queries_are_kept_apart():
    rows = np.array([1000, 1, 1000, 1, 1, 1])
    part = balance(rows, rows**2, 2)
    assert part[0] != part[2]


def test_as_many_queries_as_workers_leave_none_empty():
    assert sorted(balance(np.array([5, 1, 1]), np.array([10, 0, 0]), 3)) == [0, 1, 2]


def test_the_same_queries_are_placed_the_same():
    rows = np.random.default_rng(0).integers(1, 30, 9000)
    assert (balance(rows, rows * 3, 4) == balance(rows, rows * 3, 4)).all()
