from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ulr.errors import UserError
from ulr.ml.lists import build_lists, shown_schema, whole_lists
from ulr.training.data import read_pairs


def shown(*rows):
    columns = list(zip(*rows, strict=True))
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, shown_schema, strict=True)],
        schema=shown_schema,
    )


TWO_LISTS = shown(
    ("a", 1, 0.0, 1.0, [1.0, 2.0]),
    ("a", 2, 1.0, 3.0, [3.0, 4.0]),
    ("a", 3, 0.0, 1.0, [5.0, 6.0]),
    ("b", 1, 0.0, 1.0, [7.0, 8.0]),
    ("c", 1, 1.0, 2.0, [9.0, 0.0]),
    ("c", 2, 0.0, 1.0, [1.0, 1.0]),
)


def test_pairs_are_those_with_different_labels_weighted_by_the_winner():
    data = read_pairs([build_lists(TWO_LISTS)])
    assert data.query_ids.to_pylist() == ["a", "c"]  # b has no pair
    p = data.pairs
    found = list(zip(p.i.tolist(), p.j.tolist(), p.u_ij.tolist(), p.u_ji.tolist(), strict=True))
    assert found == [(0, 1, 0.0, 3.0), (1, 2, 3.0, 0.0), (0, 1, 2.0, 0.0)]
    assert p.position.tolist() == [1, 2, 3, 1, 2]
    np.testing.assert_array_equal(data.features, [[1, 2], [3, 4], [5, 6], [9, 0], [1, 1]])


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_list_that_is_cut_by_batches_is_put_together(monkeypatch, size):
    monkeypatch.setattr("ulr.ml.lists.HOLD_ROWS", 2)
    tables = list(whole_lists(iter(TWO_LISTS.to_batches(max_chunksize=size))))
    made = pa.concat_tables([build_lists(t) for t in tables])
    assert made.equals(build_lists(TWO_LISTS))


def test_feature_rows_of_different_lengths_are_refused():
    with pytest.raises(UserError, match="one length for all"):
        build_lists(shown(("a", 1, 0.0, 1.0, [1.0]), ("a", 2, 1.0, 1.0, [1.0, 2.0])))
    wanted = [("a", 1, 0.0, 1.0, [1.0, 2.0]), ("a", 2, 1.0, 1.0, [3.0, 4.0])]
    made_up = [("b", 1, 0.0, 1.0, [1.0]), ("b", 2, 1.0, 1.0, [2.0, 3.0, 4.0])]  # 4 in all, too
    with pytest.raises(UserError, match="one length for all"):
        build_lists(shown(*wanted, *made_up))


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("label", None, "labelCol has 1 values"),
        ("weight", float("nan"), "weightCol has 1 values"),
        ("list_id", None, "qidCol has 1 values"),
        ("features", None, "featuresCol has 1 values"),
    ],
)
def test_a_row_without_a_value_is_refused_by_the_name_of_its_parameter(name, value, words):
    rows = TWO_LISTS.to_pylist()
    rows[3][name] = value
    loose = pa.schema([field.with_nullable(True) for field in shown_schema])
    with pytest.raises(UserError, match=words):
        list(whole_lists(iter(pa.Table.from_pylist(rows, schema=loose).to_batches())))
