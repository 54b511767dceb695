import numpy as np
import pytest

from ulr.kernels.layout import PairLists
from ulr.pairs.effective_size import EffectiveSize, effective_size


def lists(clicks, weights, queries=(1, 1)):
    """Return lists of two documents with one pair each. queries: lists per query."""
    n = len(weights)
    u_ij, u_ji = np.array(weights, np.float32).T
    return PairLists(
        query_rows=np.cumsum([0, *(2 * q for q in queries)]),
        query_groups=np.cumsum([0, *queries]),
        group_docs=np.arange(0, 2 * n + 1, 2),
        group_pairs=np.arange(n + 1),
        doc_row=np.tile([0, 1], n), position=np.tile([1, 2], n),
        i=np.zeros(n, np.int32), j=np.ones(n, np.int32), u_ij=u_ij, u_ji=u_ji,
        clicks=np.array(clicks, np.float32).reshape(-1),
    )  # fmt: skip


def test_equal_clicks_count_in_full_and_one_heavy_click_reduces_both_numbers():
    equal = effective_size(lists([[4, 0], [4, 0]], [[4, 0], [4, 0]])).metrics()
    assert equal == {"clicks": 8, "effective_clicks": 8, "effective_queries": 2}
    heavy = effective_size(lists([[4, 0], [0, 1]], [[4, 0], [0, 9]])).metrics()
    assert heavy["effective_clicks"] == pytest.approx(13**2 / (4 * 1**2 + 9**2))
    assert heavy["effective_queries"] == pytest.approx(13**2 / (4**2 + 9**2))


def test_lists_of_one_query_are_one_query_and_negative_weights_count_by_their_size():
    size = effective_size(lists([[1, 0], [2, 0], [1, 0]], [[2, 0], [-2, 0], [3, 0]], (2, 1)))
    assert size.metrics()["effective_queries"] == pytest.approx(7**2 / (4**2 + 3**2))
    assert size.metrics()["effective_clicks"] == pytest.approx(7**2 / (2**2 + 2 * 1 + 3**2))


def test_documents_without_clicks_are_left_out_and_nothing_has_size_0():
    size = effective_size(lists([[0, 0], [1, 0]], [[5, 5], [2, 1]]))
    assert size.metrics() == {"clicks": 1, "effective_clicks": 1, "effective_queries": 1}
    assert EffectiveSize().metrics()["effective_clicks"] == 0


def test_partitions_add_up():
    clicks, weights = [[3, 1], [0, 2], [5, 0]], [[3, 2], [0, 8], [1, 0]]
    whole = effective_size(lists(clicks, weights, (1, 1, 1)))
    parts = [effective_size(lists(clicks[n : n + 1], weights[n : n + 1], (1,))) for n in range(3)]
    assert sum(parts, EffectiveSize()).metrics() == pytest.approx(whole.metrics())
