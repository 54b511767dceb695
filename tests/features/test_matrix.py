import numpy as np
import pyarrow as pa
import pytest

from ulr.errors import InvalidData
from ulr.features.matrix import check_width, feature_matrix, feature_width, take_features
from ulr.warehouse.schema import features_schema


def features(*rows):
    names = [{"query_id": "q", "doc_id": f"d{n}", "features": row} for n, row in enumerate(rows)]
    return pa.Table.from_pylist(names, schema=features_schema)


def test_rows_become_a_matrix_of_float32():
    matrix = feature_matrix(features([1, 2], [3, 4], [5, 6]).slice(1))
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix, [[3, 4], [5, 6]])
    assert feature_matrix(features()).shape == (0, 0)


def test_a_row_of_another_length_is_named():
    with pytest.raises(InvalidData, match="query q, document d2: 1 values where another row has 2"):
        feature_matrix(features([1, 2], [3, 4], [5]))


def test_only_the_rows_asked_for_must_have_one_length():
    table = features([1, 2], [9], [3, 4])
    assert feature_width(table, np.array([0, 2])) == 2
    np.testing.assert_array_equal(take_features(table, np.array([2, 0]), 2), [[3, 4], [1, 2]])
    assert take_features(table, np.array([], np.int64), 2).shape == (0, 2)


def test_entries_may_hold_several_rows():
    assert check_width(np.array([6, 4]), rows=np.array([3, 2])) == 2
    with pytest.raises(InvalidData, match="row 1: 4 values in 3 rows where another row has 2"):
        check_width(np.array([6, 4]), rows=np.array([3, 3]))


def test_a_width_can_be_prescribed():
    assert check_width(np.array([], np.int64), width=3) == 3
    with pytest.raises(InvalidData, match="the table: 2 values where another row has 3"):
        check_width(np.array([2, 2]), width=3, name=lambda _: "the table")
