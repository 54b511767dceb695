from __future__ import annotations

import numpy as np
import pytest

from ulr.training.distributed.balance import balance


@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
def test_rows_and_pairs_are_even_for_queries_of_very_different_sizes(ranks):
    rng = np.random.default_rng(ranks)
    rows = (1 + rng.pareto(1.2, 6000) * 5).astype(np.int64).clip(1, 400)
    pairs = (rows * rows * rng.uniform(0.1, 0.5, rows.size)).astype(np.int64)
    assigned = balance(rows, pairs, ranks)
    load = rows / rows.sum() + pairs / pairs.sum()
    loads = np.bincount(assigned, load, ranks)
    assert loads.max() <= loads.mean() * 1.01
    assert set(assigned) == set(range(ranks))


def test_two_huge_queries_get_different_ranks():
    rows = np.array([1000, 1, 1000, 1, 1, 1])
    assigned = balance(rows, rows**2, 2)
    assert assigned[0] != assigned[2]


def test_no_rank_is_empty_with_as_many_queries_as_ranks():
    assert sorted(balance(np.array([5, 1, 1]), np.array([10, 0, 0]), 3)) == [0, 1, 2]


def test_the_assignment_is_deterministic():
    rows = np.random.default_rng(0).integers(1, 30, 9000)
    assert (balance(rows, rows * 3, 4) == balance(rows, rows * 3, 4)).all()
