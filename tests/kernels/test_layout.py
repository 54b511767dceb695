"""Ragged lists, and pair tables taken apart and put together."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.pair_samples import random_pairs
from ulr.kernels.layout import Ragged, concat_pairs, take_queries

sizes = st.lists(st.integers(0, 5), max_size=8)


@given(sizes)
def test_every_element_has_an_owner_and_a_place(lengths):
    ragged = Ragged.from_lengths(np.array(lengths, np.int64))
    elements = [(owner, place) for owner, n in enumerate(lengths) for place in range(n)]
    owners, places = ragged.owner().tolist(), ragged.within().tolist()
    assert list(zip(owners, places, strict=True)) == elements
    assert ragged.lengths.tolist() == lengths


@given(sizes, st.data())
def test_a_selection_keeps_the_lists_and_drops_elements(lengths, data):
    ragged = Ragged.from_lengths(np.array(lengths, np.int64))
    total = sum(lengths)
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=total, max_size=total)), bool)
    expected = [int(keep[ragged.owner() == owner].sum()) for owner in range(len(lengths))]
    assert ragged.select(keep).lengths.tolist() == expected


def test_queries_taken_apart_concatenate_to_the_same_table():
    pairs = random_pairs(np.random.default_rng(1), queries=5)
    parts = [take_queries(pairs, np.arange(5) == query) for query in range(5)]
    for column, again in zip(pairs, concat_pairs(parts), strict=True):
        assert again.dtype == column.dtype
        np.testing.assert_array_equal(again, column)
