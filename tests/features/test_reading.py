"""Reading feature files of every kind."""

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from tests.support.pair_inputs import FEATURES
from ulr.errors import InvalidData
from ulr.features import files as featurefiles
from ulr.features.files import read_features
from ulr.warehouse.schema import features_schema
from ulr.warehouse.storage import Storage


def test_features_may_lack_labels_and_may_be_letor_text(tmp_path):
    bare = FEATURES.drop_columns(["label"])
    Storage(f"{tmp_path}").write_table(bare, "bare.parquet")
    table = pa.concat_tables(read_features(f"{tmp_path}", f"{tmp_path}/bare.parquet"))
    assert table.schema == features_schema
    assert table["label"].null_count == FEATURES.num_rows
    (tmp_path / "judged.txt").write_text("2 qid:7 1:0.5 3:1 # docid = d1\n0 qid:7 2:4\n")
    rows = pa.concat_tables(read_features(f"{tmp_path}", f"{tmp_path}/judged.txt")).to_pylist()
    assert rows[0] == {"query_id": "7", "doc_id": "d1", "features": [0.5, 0.0, 1.0], "label": 2}
    assert rows[1]["features"] == [0.0, 4.0, 0.0]


def test_letor_text_is_read_from_the_filesystem_that_its_folder_is_on(tmp_path, monkeypatch):
    (tmp_path / "judged.txt").write_text("2 qid:7 1:0.5\n")
    store = pafs.SubTreeFileSystem(str(tmp_path), pafs.LocalFileSystem())
    monkeypatch.setattr(featurefiles, "open_filesystem", lambda url: (store, "bucket"))
    (table,) = read_features("s3://bucket", "judged.txt")
    assert table["doc_id"].to_pylist() == ["7-1"]


ODD = [
    ({"query_id": [None, "q"]}, "query_id is null in 1 of 2 rows"),
    ({"features": [None, [1.0]]}, "features is null in 1 of 2 rows"),
    ({"features": [["x"], ["y"]]}, "features is list<element: string> where list<item: float>"),
    ({"features": [1.0, 2.0]}, "features is double where list"),
    ({"label": [0.5, 1.0]}, "label is double where int32 is expected"),
]


@pytest.mark.parametrize(("odd", "words"), ODD)
def test_features_of_another_type_are_a_one_line_error(tmp_path, odd, words):
    plain = {"query_id": ["q", "q"], "doc_id": ["a", "b"], "features": [[1.0], [2.0]]}
    pq.write_table(pa.table(plain | odd), tmp_path / "odd.parquet")
    with pytest.raises(InvalidData) as error:
        list(read_features("", f"{tmp_path}/odd.parquet"))
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_features_of_any_numeric_type_are_read_as_floats(tmp_path):
    for values in ([[2**24 + 1, 3]], pa.array([[16777216.4, 3]], pa.list_view(pa.float64()))):
        table = pa.table({"query_id": [1], "doc_id": [2], "features": values})
        pq.write_table(table, tmp_path / "ints.parquet")
        (read,) = read_features("", f"{tmp_path}/ints.parquet")
        assert read["features"].to_pylist() == [[2.0**24, 3.0]]
        assert read["query_id"].to_pylist() == ["1"]
