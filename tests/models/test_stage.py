import pyarrow as pa
import pytest

from ulr.errors import InvalidData, UserError
from ulr.models.booster import check_width
from ulr.models.stage import score_table
from ulr.warehouse.schema import features_schema, scores_schema


def features(*rows):
    names = features_schema.names[:3]
    listed = [dict(zip(names, row, strict=True)) | {"label": None} for row in rows]
    return pa.Table.from_pylist(listed, schema=features_schema)


def first(matrix):
    return matrix[:, 0].astype(float)


def test_every_query_is_in_the_order_of_its_scores_from_rank_one():
    table = score_table(
        features(("b", "x", [1.0]), ("a", "x", [0.0]), ("b", "y", [3.0]), ("b", "z", [2.0])), first
    )
    assert table.schema == scores_schema
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert rows == [("a", "x", 1, 0.0), ("b", "y", 1, 3.0), ("b", "z", 2, 2.0), ("b", "x", 3, 1.0)]


def test_equal_scores_do_not_depend_on_the_order_of_the_rows():
    rows = [("q", d, [1.0]) for d in "cab"]
    one, two = (score_table(features(*r), first) for r in (rows, rows[::-1]))
    assert one.equals(two)
    assert one["doc_id"].to_pylist() == ["a", "b", "c"]


def test_no_rows_give_no_rows():
    assert score_table(features(), first).num_rows == 0


def test_rows_of_another_length_are_named():
    with pytest.raises(InvalidData, match="query q, document b: 1 values where another row has 2"):
        score_table(features(("q", "a", [1.0, 2.0]), ("q", "b", [1.0])), first)


def test_another_number_of_features_is_one_clear_error():
    with pytest.raises(UserError, match="trained on 4 features and these rows have 3"):
        check_width(3, 4, "models:/ranker@champion")
    check_width(4, 4, "m")
