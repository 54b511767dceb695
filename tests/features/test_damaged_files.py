"""Damaged feature files are invalid data (exit code 3), and named."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ulr.errors import InvalidData
from ulr.features.files import FeaturePart, find_features
from ulr.features.reading import read_features
from ulr.warehouse.schema import features_schema


def table(rows: int) -> pa.Table:
    columns = [["q"] * rows, [f"d{n}" for n in range(rows)], [[0.5, n] for n in range(rows)]]
    return pa.table([*columns, pa.nulls(rows, pa.int32())], schema=features_schema)


@pytest.mark.parametrize("damage", ["truncated", "text", "page"])
def test_a_damaged_parquet_file_is_named(tmp_path, damage):
    path = tmp_path / "part-0.parquet"
    pq.write_table(table(5000), path)
    content = bytearray(path.read_bytes())
    if damage == "truncated":
        content = content[: len(content) // 2]
    elif damage == "text":
        content = bytearray(b"query,doc,features\n" * 50)
    else:
        content[4:2000] = bytes(1996)
    path.write_bytes(content)
    with pytest.raises(InvalidData, match=r"part-0\.parquet is not a readable Parquet file: ") as e:
        list(read_features(find_features(str(path)), FeaturePart(0, 0, 1, 1)))
    assert e.value.exit_code == 3
    assert "\n" not in str(e.value)


def test_a_cut_gzip_file_is_named(tmp_path):
    path = tmp_path / "train.txt.gz"
    path.write_bytes(gzip.compress(b"2 qid:10 1:0.5 2:3\n" * 5000)[:-40])
    with pytest.raises(InvalidData, match=r"train\.txt\.gz is a damaged gzip file: "):
        list(read_features(find_features(str(path)), FeaturePart(0, 0, 1, 1)))
