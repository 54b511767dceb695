from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ulr.errors import UserError
from ulr.ml.lists import build_lists, shown_schema, split_at_lists
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


def test_pairs_have_different_labels_and_the_weight_of_the_preferred_document():
    data = read_pairs([build_lists(TWO_LISTS)])
    assert data.query_ids.to_pylist() == ["a", "c"]  # b has no pair
    p = data.pairs
    pairs = list(zip(p.i.tolist(), p.j.tolist(), p.u_ij.tolist(), p.u_ji.tolist(), strict=True))
    assert pairs == [(0, 1, 0.0, 3.0), (1, 2, 3.0, 0.0), (0, 1, 2.0, 0.0)]
    assert p.position.tolist() == [1, 2, 3, 1, 2]
    np.testing.assert_array_equal(data.features, [[1, 2], [3, 4], [5, 6], [9, 0], [1, 1]])


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_list_that_spans_batches_is_put_together(monkeypatch, size):
    monkeypatch.setattr("ulr.ml.lists.BUFFER_ROWS", 2)
    tables = list(split_at_lists(iter(TWO_LISTS.to_batches(max_chunksize=size))))
    joined = pa.concat_tables([build_lists(t) for t in tables])
    assert joined.equals(build_lists(TWO_LISTS))


def test_feature_rows_of_different_lengths_are_an_error():
    with pytest.raises(UserError, match="one length for all"):
        build_lists(shown(("a", 1, 0.0, 1.0, [1.0]), ("a", 2, 1.0, 1.0, [1.0, 2.0])))
    equal = [("a", 1, 0.0, 1.0, [1.0, 2.0]), ("a", 2, 1.0, 1.0, [3.0, 4.0])]
    unequal = [("b", 1, 0.0, 1.0, [1.0]), ("b", 2, 1.0, 1.0, [2.0, 3.0, 4.0])]  # also 4 values
    with pytest.raises(UserError, match="one length for all"):
        build_lists(shown(*equal, *unequal))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("label", None, "labelCol has 1 null"),
        ("weight", float("nan"), "weightCol has 1 null"),
        ("list_id", None, "qidCol has 1 null"),
        ("features", None, "featuresCol has 1 null"),
    ],
)
def test_an_invalid_value_is_an_error_that_names_the_parameter(name, value, message):
    rows = TWO_LISTS.to_pylist()
    rows[3][name] = value
    loose = pa.schema([field.with_nullable(True) for field in shown_schema])
    with pytest.raises(UserError, match=message):
        list(split_at_lists(iter(pa.Table.from_pylist(rows, schema=loose).to_batches())))
