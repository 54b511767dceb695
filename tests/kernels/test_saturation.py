"""Information and saturation factors against plain loops over the lists of a query."""

import numpy as np
import pytest

from ulr.kernels.layout import Histograms, Patterns, offsets_of
from ulr.kernels.saturation import (
    MAX_ROWS,
    Saturation,
    add_information,
    adds_lists,
    matrix_for,
    saturation_factor,
)

PRECISION = np.array([[[1.0, 0.8, 0.5], [0.8, 0.7, 0.4], [0.5, 0.4, 0.3]], np.full((3, 3), 0.25)])
# Query 0: three lists of rows 0 to 3, the last in segment 1; query 1: one list of rows 4 and 5.
LISTS = [(0, [0, 1, 2], 4, 0), (0, [2, 0, 3], 6, 0), (0, [1, 0], 8, 1), (1, [5, 4], 10, 0)]
SEGMENTS = np.array([segment for *_, segment in LISTS])
N_0 = 5.0


def shown(query_rows=(0, 4, 6)):
    queries, rows, sessions, _ = zip(*LISTS, strict=True)
    empty = np.zeros(0, np.int64)
    groups = Histograms(
        offsets_of(np.array([len(r) for r in rows])), Patterns(empty, empty, empty, empty)
    )
    lists = Saturation(
        query_groups=np.searchsorted(queries, np.arange(3)).astype(np.int64),
        query_rows=np.array(query_rows),
        row_of=np.concatenate(rows).astype(np.int64),
        sessions=np.array(sessions, float),
        precision=PRECISION,
        n_0=N_0,
    )
    return lists, groups


def information(pair, lists):
    """Sum sessions times precision over the lists that showed both documents."""
    total = 0.0
    for _, rows, sessions, segment in lists:
        if set(pair) <= set(rows):
            a, b = sorted(rows.index(row) for row in pair)
            total += sessions * PRECISION[segment, a, b]
    return total


def test_information_is_summed_over_the_lists_of_a_query_and_cleared():
    lists, groups = shown()
    total = matrix_for(lists)
    assert total.shape == (4, 4)
    add_information(lists, groups, SEGMENTS, 0, 1.0, total)
    for x in range(4):
        for y in range(x + 1, 4):
            assert total[x, y] == pytest.approx(information((x, y), LISTS[:3]))
    factor = saturation_factor(lists, 1, 0, 0, 1, (2, 0), total)
    assert factor == pytest.approx(1 / (1 + information((0, 2), LISTS[:3]) / N_0))
    add_information(lists, groups, SEGMENTS, 0, 0.0, total)
    assert not total.any()


def test_a_query_with_one_list_or_too_many_documents_counts_its_lists_alone():
    lists, _ = shown()
    assert [adds_lists(lists, q) for q in range(2)] == [True, False]
    many, _ = shown(query_rows=(0, MAX_ROWS + 1, MAX_ROWS + 3))
    assert not adds_lists(many, 0)
    assert matrix_for(many).size == 0
    factor = saturation_factor(many, 2, 1, 0, 1, (-1, -1), np.zeros((0, 0)))
    assert factor == pytest.approx(1 / (1 + 8 * 0.25 / N_0))
