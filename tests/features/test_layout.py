"""Features in columns, keys with other names, and what is refused."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ulr.errors import InvalidData, UserError
from ulr.features.files import find_features
from ulr.features.layout import ALL, FeatureLayout
from ulr.features.matrix import feature_matrix
from ulr.features.reading import read_features
from ulr.warehouse.schema import features_schema

KEYS = {"query_id": ["q", "q", "r"], "doc_id": [1, 2, 1], "label": [0, None, 2]}
NUMBERS = {
    "price": [1.5, None, float("nan")],
    "stock": pa.array([2**24 + 1, None, -3]),
    "new": [True, False, None],
    "rating": pa.array([Decimal("1.25"), Decimal("-2.50"), None]),
    "clicks": pa.array([0.1, float("inf"), 1e39], pa.float64()),
}
WANT = [
    [1.5, 2.0**24, 1.0, 1.25, np.float32(0.1)],
    [np.nan, np.nan, 0.0, -2.5, np.inf],
    [np.nan, -3.0, np.nan, np.nan, np.inf],
]
OTHERS = {
    "brand": ["x", "y", None],
    "added": pa.array([dt.date(2026, 1, 1)] * 3),
    "seen": pa.array([dt.datetime(2026, 1, 1)] * 3),
    "tags": [[1], [], [2]],
}


def write(folder, columns, name="part-0.parquet"):
    pq.write_table(pa.table(columns), folder / name)
    return str(folder)


def read(url, **layout):
    """The rows of all files, and the names of the features."""
    found = find_features(url, FeatureLayout(**layout))
    names = found.names()
    parts = found.parts()
    return pa.concat_tables(t for p in parts for t in read_features(found, p, names)), names


@pytest.mark.parametrize("columns", [tuple(NUMBERS), ALL])
def test_columns_of_numbers_are_the_features_and_their_names(tmp_path, columns):
    rows, names = read(write(tmp_path, KEYS | OTHERS | NUMBERS), columns=columns)
    assert names == list(NUMBERS)
    assert rows.schema.equals(features_schema)
    np.testing.assert_array_equal(feature_matrix(rows), np.array(WANT, np.float32))
    assert rows["doc_id"].to_pylist() == ["1", "2", "1"]
    assert rows["label"].to_pylist() == [0, None, 2]


def test_columns_equal_the_array_of_the_same_numbers(tmp_path):
    matrix = np.random.default_rng(0).normal(size=(9000, 7))  # more than a block
    keys = {"query_id": ["q"] * 9000, "doc_id": [str(n) for n in range(9000)]}
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    array, _ = read(write(tmp_path / "a", keys | {"features": matrix.tolist()}))
    named = {f"f{n}": matrix[:, n] for n in range(7)}
    columns, _ = read(write(tmp_path / "b", named | keys), columns=ALL)
    assert columns.equals(array)


def test_a_list_of_columns_decides_their_order(tmp_path):
    url = write(tmp_path, KEYS | NUMBERS)
    rows, names = read(url, columns=("stock", "price"))
    assert names == ["stock", "price"]
    assert rows["features"].to_pylist()[0] == [2.0**24, 1.5]


def test_missing_values_in_arrays_are_not_numbers(tmp_path):
    rows, _ = read(write(tmp_path, KEYS | {"features": [[1, None], [1, 0], [None, 2]]}))
    want = np.array([[1, np.nan], [1, 0], [np.nan, 2]], np.float32)
    np.testing.assert_array_equal(feature_matrix(rows), want)


def test_keys_may_have_other_names(tmp_path):
    renamed = {"q": KEYS["query_id"], "product": KEYS["doc_id"], "grade": [0, 1, 2],
               "vector": [[1.0], [2.0], [3.0]], "label": ["x"] * 3}  # fmt: skip
    keys = {"query_id": "q", "doc_id": "product", "label": "grade", "features": "vector"}
    rows, names = read(write(tmp_path, renamed), keys=keys)
    assert names == []
    assert rows.select(["query_id", "doc_id", "label"]).to_pylist()[1] == {
        "query_id": "q", "doc_id": "2", "label": 1,
    }  # fmt: skip
    assert feature_matrix(rows).tolist() == [[1], [2], [3]]
    _, names = read(
        write(tmp_path, KEYS | {"q": [1, 2, 3]}), keys={"label": "q"}, columns=("label",)
    )
    assert names == ["label"]


@pytest.mark.parametrize(
    ("columns", "keys", "message"),
    [
        (("prize",), {}, r"no column prize \(features.columns\); did you mean price\? it has q"),
        (("BRAND",), {}, r"no column BRAND .*did you mean brand\?"),
        (("brand",), {}, r"column brand is string, .*StringIndexer\(inputCol='brand'.*target"),
        (("added",), {}, r"column added is date32.*datediff\(current_date\(\), added\)"),
        (("seen",), {}, r"column seen is timestamp"),
        (("tags",), {}, r"column tags is list<.*a column for each number"),
        (("label", "price"), {}, r"features.columns: label is the key, the label or the date"),
        (None, {}, r"no column features; .*set features.columns to the columns .*or to all"),
        (ALL, {"query_id": "user"}, r"no column user \(query_id by features.keys\); .*keys.quer"),
        (ALL, {"label": "grade"}, r"no column grade \(label by features.keys\)"),
        (("price",), {"doc_id": "brand"}, r"brand is null in 1 of 3 rows"),
    ],
)  # fmt: skip
def test_a_wrong_column_is_refused_in_one_line(tmp_path, columns, keys, message):
    url = write(tmp_path, KEYS | OTHERS | NUMBERS)
    with pytest.raises(InvalidData, match=message) as error:
        read(url, columns=columns, keys=keys)
    assert "\n" not in str(error.value)


def test_a_table_without_numbers_and_text_without_columns_are_refused(tmp_path):
    with pytest.raises(InvalidData, match="finds no numeric column besides the keys; it has query"):
        read(write(tmp_path, KEYS | OTHERS), columns=ALL)
    (tmp_path / "part-0.parquet").unlink()
    (tmp_path / "judged.txt").write_text("2 qid:1 1:3\n")
    with pytest.raises(UserError, match="LETOR text, which has no columns"):
        read(str(tmp_path), columns=ALL)


def test_all_files_must_have_the_columns_of_the_first(tmp_path):
    write(tmp_path, KEYS | {"price": [1, 2, 3]})
    url = write(tmp_path, KEYS | {"price": [1, 2, 3], "more": [1, 2, 3]}, "part-1.parquet")
    with pytest.raises(InvalidData, match=r"part-1.parquet: the numeric column more is not in the"):
        read(url, columns=ALL)
    rows, _ = read(url, columns=("price",))
    assert rows.num_rows == 6
    write(tmp_path, KEYS | {"prices": [1, 2, 3]}, "part-1.parquet")
    with pytest.raises(InvalidData, match=r"part-1.parquet: no column price .*mean prices\?"):
        read(url, columns=("price",))


def test_names_that_become_equal_are_refused(tmp_path):
    with pytest.raises(InvalidData, match=r"features\.columns: two features are named a_b"):
        read(write(tmp_path, KEYS | {"a b": [1, 2, 3], "a:b": [1, 2, 3]}), columns=ALL)
