"""Runs hold the pairs of their lists, each once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.pair_samples import group_lists, one_list_per_query, random_pairs, run_lists
from ulr.kernels.lanes import LANES
from ulr.kernels.layout import WeightedPairs, offsets_of
from ulr.kernels.pair_runs import pair_runs


@given(
    seed=st.integers(0, 2**32 - 1),
    max_docs=st.sampled_from([2, 12, 60]),
    share=st.sampled_from([0.0, 0.1, 0.6, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_runs_have_the_pairs_of_the_lists_and_otherwise_zeros(seed, max_docs, share):
    pairs = random_pairs(np.random.default_rng(seed), queries=3, max_docs=max_docs, share=share)
    runs = pair_runs(pairs)
    assert runs.u_ij.size <= 2 * pairs.pairs + LANES
    for (_, _, listed), weights in zip(group_lists(pairs), run_lists(runs), strict=True):
        want = {(i, j): (u_ij, u_ji) for i, j, u_ij, u_ji in listed}
        assert {pair: u for pair, u in weights.items() if any(u)} == want
    for group, (_, _, listed) in enumerate(group_lists(pairs)):
        lo, hi = runs.group_docs[group], runs.group_docs[group + 1]
        index = runs.doc_index[lo:hi]
        assert sorted(index) == list(range(hi - lo))
        np.testing.assert_array_equal(runs.doc_row[lo:hi], pairs.doc_row[lo:hi][index])
        paired = {place for i, j, _, _ in listed for place in (i, j)}
        assert set(index[: runs.group_paired[group]].tolist()) == paired


@pytest.mark.parametrize("clicked", [[0], [4], [9], [2, 7], [0, 5, 9]])
def test_a_clicked_document_is_one_run(clicked):
    i, j = np.triu_indices(10, 1)
    kept = np.isin(i, clicked) | np.isin(j, clicked)
    pairs = WeightedPairs.zeros(offsets_of(np.array([kept.sum()])))
    pairs.i[:], pairs.j[:], pairs.u_ij[:] = i[kept], j[kept], 1.0
    runs = pair_runs(one_list_per_query(10, pairs))
    assert runs.doc_index[:10][runs.document].tolist() == clicked
    assert runs.u_ij.size == pairs.i.size + LANES
