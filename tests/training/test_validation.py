"""The effective number of held-out queries."""

import numpy as np
import pytest

from tests.support.clicked_pairs import clicked_data, share, with_even_queries
from tests.support.rendezvous import on_threads
from ulr.training.validation import effective_queries


def scaled(pairs, factor):
    """The pairs with the weights of each query times a factor (one per query, or one for all)."""
    counts = np.diff(pairs.group_pairs[pairs.query_groups])
    each = np.repeat(np.broadcast_to(factor, pairs.queries), counts).astype(np.float32)
    return pairs._replace(u_ij=pairs.u_ij * each, u_ji=pairs.u_ji * each)


EVEN = with_even_queries(clicked_data(60)).pairs


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_equal_queries_count_fully_whatever_their_scale(factor):
    alone = effective_queries(scaled(EVEN, factor), lambda sums: sums)
    assert alone == pytest.approx(60, rel=1e-4)


def test_a_heavy_query_counts_as_kish_says():
    weight = np.where(np.arange(60) == 7, 100.0, 1.0)
    want = weight.sum() ** 2 / (weight**2).sum()
    assert effective_queries(scaled(EVEN, weight), lambda s: s) == pytest.approx(want, rel=1e-3)


def test_all_ranks_have_the_number_of_one():
    data = with_even_queries(clicked_data(60))
    whole = effective_queries(data.pairs, lambda sums: sums)

    for ranks in (2, 3):
        parts = [share(data, rank, ranks).pairs for rank in range(ranks)]
        found = on_threads(ranks, lambda c, parts=parts: effective_queries(parts[c.rank], c.sum))
        assert found == [whole] * ranks


def test_no_queries_are_worth_nothing():
    assert effective_queries(None, lambda sums: sums) == 0.0
