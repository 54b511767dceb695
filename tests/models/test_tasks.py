import pyarrow as pa
import pytest

from ulr.errors import InvalidData
from ulr.models.tasks import rank_queries, score_rows
from ulr.warehouse.schema import features_schema, scores_schema


def features(*rows):
    names = features_schema.names[:3]
    listed = [dict(zip(names, row, strict=True)) | {"label": None} for row in rows]
    return pa.Table.from_pylist(listed, schema=features_schema)


def score_queries(rows, scorer):
    return rank_queries(score_rows(rows, scorer))


def first(matrix):
    return matrix[:, 0].astype(float)


def test_the_documents_of_a_query_are_sorted_by_score_and_ranked_from_one():
    table = score_queries(
        features(("b", "x", [1.0]), ("a", "x", [0.0]), ("b", "y", [3.0]), ("b", "z", [2.0])), first
    )
    assert table.schema == scores_schema
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert rows == [("a", "x", 1, 0.0), ("b", "y", 1, 3.0), ("b", "z", 2, 2.0), ("b", "x", 3, 1.0)]


def test_the_order_of_equal_scores_does_not_depend_on_the_order_of_the_rows():
    rows = [("q", d, [1.0]) for d in "cab"]
    one, two = (score_queries(features(*r), first) for r in (rows, rows[::-1]))
    assert one.equals(two)
    assert one["doc_id"].to_pylist() == ["a", "b", "c"]


def test_no_rows_give_no_rows():
    assert score_queries(features(), first).num_rows == 0


def test_a_row_of_another_length_is_an_error_that_names_the_document():
    with pytest.raises(InvalidData, match="query q, document b: 1 values where another row has 2"):
        score_queries(features(("q", "a", [1.0, 2.0]), ("q", "b", [1.0])), first)
