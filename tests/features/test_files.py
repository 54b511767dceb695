"""Feature files are read with their types checked, and their feature names compared."""

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from ulr.errors import InvalidData, UserError
from ulr.features import reading
from ulr.features.files import (
    FeatureFiles,
    feature_names,
    find_features,
    with_names,
)
from ulr.features.reading import name_difference, read_features
from ulr.warehouse.schema import features_schema
from ulr.warehouse.storage import StoredFile

NAMES = ["price", "stock", "age"]


def table(names=()):
    rows = [{"query_id": "q", "doc_id": "d", "features": [1.0, 2.0, 3.0], "label": None}]
    plain = pa.Table.from_pylist(rows, schema=features_schema)
    return with_names(plain, names) if names else plain


def written(folder, name, names=()):
    path = str(folder / name)
    pq.write_table(table(names), path)
    return path


def read(path, names=()):
    """Read a file of features."""
    features = find_features(path)
    return (t for part in features.parts() for t in read_features(features, part, names))


def test_names_written_by_arrow_are_read(tmp_path):
    assert feature_names("", written(tmp_path, "a.parquet", NAMES)) == NAMES
    assert feature_names("", written(tmp_path, "b.parquet")) == []
    (rows,) = read(written(tmp_path, "a.parquet", NAMES))
    assert rows.schema.equals(features_schema, check_metadata=True)


def test_names_written_by_spark_are_read(spark, tmp_path):
    frame = spark.createDataFrame([("q", "d", [1.0, 2.0, 3.0])], "query_id string, doc_id string, "
                                  "features array<float>")  # fmt: skip
    frame = frame.withMetadata("features", {"names": NAMES})
    frame.coalesce(1).write.parquet(str(tmp_path / "features"))
    (path,) = (tmp_path / "features").glob("*.parquet")
    assert feature_names("", str(path)) == NAMES


def test_characters_that_lightgbm_does_not_allow_are_replaced_and_names_must_be_unique(tmp_path):
    odd = ["in stock", "a:b", "{x}"]
    assert feature_names("", written(tmp_path, "a.parquet", odd)) == ["in_stock", "a_b", "_x_"]
    with pytest.raises(UserError, match="two features are named a_b"):
        feature_names("", written(tmp_path, "b.parquet", ["a b", "a:b", "c"]))


@pytest.mark.parametrize(
    ("expected", "names", "message"),
    [
        (NAMES, NAMES, ""),
        (NAMES, [], ""),
        ([], NAMES, ""),
        (NAMES, ["price", "age", "stock"], "feature 2 is age instead of stock"),
        (NAMES, ["price"], "1 features instead of 3"),
    ],
)
def test_the_first_different_name_is_reported(expected, names, message):
    assert name_difference(expected, names) == message


def test_files_of_one_table_must_have_their_features_in_one_order(tmp_path):
    path = written(tmp_path, "b.parquet", NAMES[::-1])
    with pytest.raises(UserError, match="feature 1 is age instead of price in another file"):
        next(read(path, NAMES))


def test_features_may_lack_labels_and_may_be_letor_text(tmp_path):
    pq.write_table(table().drop_columns(["label"]), tmp_path / "bare.parquet")
    (rows,) = read(f"{tmp_path}/bare.parquet")
    assert rows.schema == features_schema
    assert rows["label"].null_count == 1
    (tmp_path / "judged.txt").write_text("2 qid:7 1:0.5 3:1 # docid = d1\n0 qid:7 2:4\n")
    rows = pa.concat_tables(read(f"{tmp_path}/judged.txt")).to_pylist()
    assert rows[0] == {"query_id": "7", "doc_id": "d1", "features": [0.5, 0.0, 1.0], "label": 2}
    assert rows[1]["features"] == [0.0, 4.0, 0.0]


def test_letor_text_is_read_from_the_filesystem_of_its_folder(tmp_path, monkeypatch):
    (tmp_path / "judged.txt").write_text("2 qid:7 1:0.5\n")
    store = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    monkeypatch.setattr(reading, "open_filesystem", lambda url: (store, "bucket"))
    features = FeatureFiles("s3://bucket", [StoredFile("judged.txt", 14, 0)])
    (rows,) = read_features(features, features.parts()[0])
    assert rows["doc_id"].to_pylist() == ["7-1"]


ODD = [
    ({"query_id": [None, "q"]}, "query_id is null in 1 of 2 rows"),
    ({"features": [None, [1.0]]}, "features is null in 1 of 2 rows"),
    ({"features": [["x"], ["y"]]}, "features is list<element: string>, expected list<item: float>"),
    ({"features": [["red"], ["blue"]]}, "encode texts as numbers, by their index"),
    ({"features": [{"indices": [1], "values": [2.0]}] * 2}, "by vector_to_array(features)"),
    (
        {"features": [1.0, 2.0]},
        "column features is double, expected an array of numbers; for a column",
    ),
    ({"label": [0.5, 1.0]}, "label is double, expected int32"),
]


@pytest.mark.parametrize(("odd", "message"), ODD)
def test_columns_of_another_type_raise_one_clear_line(tmp_path, odd, message):
    plain = {"query_id": ["q", "q"], "doc_id": ["a", "b"], "features": [[1.0], [2.0]]}
    pq.write_table(pa.table(plain | odd), tmp_path / "odd.parquet")
    with pytest.raises(InvalidData) as error:
        list(read(f"{tmp_path}/odd.parquet"))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_features_of_any_number_type_become_float32(tmp_path):
    writes_views = int(pa.__version__.partition(".")[0]) >= 20
    other = (pa.list_view if writes_views else pa.large_list)(pa.float64())
    for values in ([[2**24 + 1, 3]], pa.array([[16777216.4, 3]], other)):
        numbers = pa.table({"query_id": [1], "doc_id": [2], "features": values})
        pq.write_table(numbers, tmp_path / "ints.parquet")
        (rows,) = read(f"{tmp_path}/ints.parquet")
        assert rows["features"].to_pylist() == [[2.0**24, 3.0]]
        assert rows["query_id"].to_pylist() == ["1"]


def test_a_damaged_file_and_texts_that_are_not_utf8_are_reported_with_the_file(tmp_path):
    path = tmp_path / "features.parquet"
    rows = {"query_id": ["q"] * 50, "doc_id": [f"d{n}" for n in range(50)],
            "features": [[float(n)] for n in range(50)]}  # fmt: skip
    pq.write_table(pa.table(rows), path, compression="zstd", write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[content.index(b"\x28\xb5\x2f\xfd") + 6] ^= 0xFF  # in a zstd frame
    path.write_bytes(bytes(content))
    features = find_features(str(tmp_path))
    with pytest.raises(InvalidData, match=r"features.parquet is not a readable Parquet file"):
        list(read_features(features, features.parts()[0]))
    binary = pa.array([b"\xff"] * 50)
    invalid = pa.Array.from_buffers(pa.string(), 50, binary.buffers())
    pq.write_table(pa.table(rows | {"doc_id": invalid}), path)
    with pytest.raises(InvalidData, match="doc_id is not valid UTF-8 in 50 of 50 rows"):
        list(read_features(features, features.parts()[0]))
