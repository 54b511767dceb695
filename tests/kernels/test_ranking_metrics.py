"""Ranking metrics: oracle and hand-made lists."""

import itertools
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import oracle_pairs as oracle
from ulr.errors import UserError
from ulr.kernels.ranking_metrics import metric_names, ranking_metrics


def one_list(scores, labels, **options):
    values = ranking_metrics(
        np.array(scores, float), np.array(labels), np.array([0, len(scores)]), **options
    )
    return dict(zip(metric_names(options.get("cuts", (1, 3, 5, 10))), values[0], strict=True))


def test_a_list_by_hand():
    got = one_list([3.0, 2.0, 1.0], [0, 2, 1], max_label=2)
    ideal = 3 / log2(2) + 1 / log2(3)
    assert got["ndcg_at_1"] == 0
    assert got["ndcg_at_3"] == pytest.approx((3 / log2(3) + 1 / log2(4)) / ideal)
    assert got["map"] == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert got["mean_relevant_rank"] == pytest.approx((2 + 3) / 2)
    assert got["err"] == pytest.approx(3 / 4 / 2 + 1 / 4 * 1 / 4 / 3)


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 4)), min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_metrics_equal_the_plain_loops(rows):
    scores, labels = zip(*rows, strict=True)
    got = one_list(scores, labels)
    if max(labels) == 0:
        assert all(np.isnan(v) for v in got.values())
        return
    for k in (1, 3, 5, 10):
        assert got[f"ndcg_at_{k}"] == pytest.approx(oracle.ndcg(scores, labels, k))
    assert got["map"] == pytest.approx(oracle.average_precision(scores, labels))
    assert got["mean_relevant_rank"] == pytest.approx(oracle.relevant_position(scores, labels))
    assert got["err"] == pytest.approx(oracle.reciprocal_rank(scores, labels, 4))


def test_concatenated_lists_have_the_metrics_of_their_parts():
    rng = np.random.default_rng(1)
    sizes = [3, 1, 40, 7]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    scores, labels = rng.normal(size=offsets[-1]), rng.integers(0, 5, offsets[-1])
    joined = ranking_metrics(scores, labels, offsets)
    for q, (lo, hi) in enumerate(itertools.pairwise(offsets)):
        alone = ranking_metrics(scores[lo:hi], labels[lo:hi], np.array([0, hi - lo]))
        np.testing.assert_array_equal(joined[q], alone[0])


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(UserError, match="must be equal"):
        ranking_metrics(np.zeros(3), np.zeros(2), np.array([0, 3]))
