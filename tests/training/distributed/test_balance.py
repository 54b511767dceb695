from __future__ import annotations

import numpy as np
import pytest

from ulr.training.distributed.balance import assign_queries


def balance(rows, pairs, ranks):
    """Assign the queries of one row group, none of them held out."""
    none = np.zeros(rows.size, np.int64)
    return assign_queries(rows, pairs, none.astype(bool), none, ranks)


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


@pytest.mark.parametrize("ranks", [1, 2, 3, 16])
def test_row_groups_stay_whole_unless_ranks_would_be_uneven(ranks):
    rng = np.random.default_rng(ranks)
    rows = rng.integers(1, 40, 200 * 50)
    pairs = rows * rng.integers(1, 9, rows.size)
    group = np.repeat(np.arange(200), 50)
    validation = rng.random(rows.size) < 0.2
    assigned = assign_queries(rows, pairs, validation, group, ranks)
    for chosen in (~validation, validation):
        load = rows / rows[chosen].sum() + pairs / pairs[chosen].sum()
        loads = np.bincount(assigned[chosen], load[chosen], ranks)
        assert loads.max() <= loads.mean() * (1.01 if chosen is not validation else 1.5)
    split = sum(np.unique(assigned[group == g]).size > 1 for g in range(200))
    assert split <= 2 * ranks


def test_validation_row_groups_are_balanced_separately():
    rows, group = np.full(400, 10), np.repeat(np.arange(40), 10)
    validation = group >= 30
    assigned = assign_queries(rows, rows, validation, group, 2)
    assert np.bincount(assigned[~validation]).tolist() == [150, 150]
    assert np.bincount(assigned[validation]).tolist() == [50, 50]


def test_a_row_group_larger_than_a_ranks_part_is_split():
    rows, group = np.full(100, 10), np.repeat([0, 1], [90, 10])
    assigned = assign_queries(rows, rows, np.zeros(100, bool), group, 2)
    assert np.bincount(assigned).tolist() == [50, 50]
    assert np.unique(assigned[90:]).size == 1


def test_no_rank_is_empty_if_a_row_group_with_many_queries_is_small():
    rows, group = np.array([1, 1, 1, 100]), np.array([0, 0, 0, 1])
    assigned = assign_queries(rows, rows, np.zeros(4, bool), group, 3)
    assert set(assigned.tolist()) == {0, 1, 2}
