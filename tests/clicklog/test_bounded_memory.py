"""Small files whose rows are huge when decoded are read in bounded memory."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.logs import NOON

ROWS = 8000
MEGABYTE = "x" * (1 << 20)
LIMIT_MB = 600  # of the child's memory above that of the imports

READ = """
import json, resource, sys
from collections import Counter
from tests.support.logs import DATE
from ulr.clicklog.files import find_log
from ulr.clicklog.parquet import open_log
from ulr.clicklog.text import open_text
from ulr.warehouse.schema import page_schema
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
log, before = find_log(sys.argv[1], DATE), peak()
form = sys.argv[2]
if form == "parquet":
    reader = open_log(log, page_schema, 1)
else:
    reader = open_text(log, form, page_schema, 1)
problems = Counter()
for batch in reader.rows(range(len(reader.tasks))):
    assert batch.nbytes < 200 << 20
    problems.update(str(p) for p in batch["problem"].to_pylist())
print(json.dumps({"problems": problems, "mb": peak() - before}))
"""


def read_in_child(folder: Path, form: str = "parquet") -> dict:
    child = subprocess.run([sys.executable, "-c", READ, str(folder), form], text=True,
                           stdout=subprocess.PIPE, check=True)  # fmt: skip
    return json.loads(child.stdout)


def write(folder: Path, rows: int = ROWS, *, dictionary: bool = True, **columns: object) -> None:
    """Write a page log whose columns hold few distinct values; it is much smaller than its rows."""
    good = {
        "session_id": [f"s{n}" for n in range(rows)],
        "query_id": ["q"] * rows,
        "shown_at": [NOON] * rows,
        "doc_ids": [["a", "b"]] * rows,
        "clicks": [[True, False]] * rows,
    }
    pq.write_table(pa.table(good | columns), folder / "log.parquet", compression="zstd",
                   store_schema=False, use_dictionary=dictionary,
                   dictionary_pagesize_limit=64 << 20)  # fmt: skip
    assert (folder / "log.parquet").stat().st_size < 2 << 20


def repeated(values: list[str], indices: list[int | None]) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), values)


@pytest.mark.parametrize("first", [0, pytest.param(None, marks=pytest.mark.all)])
def test_a_dictionary_with_a_long_text_is_decoded_a_few_rows_at_a_time(tmp_path, first):
    write(tmp_path, query_id=repeated([MEGABYTE], [first] + [0] * (ROWS - 1)))
    result = read_in_child(tmp_path)
    assert result["problems"] == {"None": ROWS}
    assert result["mb"] < LIMIT_MB


def test_documents_with_long_names_are_decoded_a_few_rows_at_a_time(tmp_path):
    offsets = pa.array([0, *range(0, 2 * ROWS, 2)], pa.int32())  # the first list is empty
    docs = pa.ListArray.from_arrays(offsets, repeated([MEGABYTE, "b"], [0, 1] * (ROWS - 1)))
    write(tmp_path, doc_ids=docs)
    result = read_in_child(tmp_path)
    assert result["problems"] == {"None": ROWS}
    assert result["mb"] < LIMIT_MB


def test_pages_of_very_many_documents_are_quarantined(tmp_path):
    rows, length = 20, 1_000_000
    offsets = pa.array(range(0, rows * length + 1, length), pa.int32())
    docs = pa.ListArray.from_arrays(offsets, repeated(["d" * 1000], [0] * (rows * length)))
    clicks = pa.ListArray.from_arrays(offsets, pa.repeat(False, rows * length))
    write(tmp_path, rows, doc_ids=docs, clicks=clicks)
    result = read_in_child(tmp_path)
    assert result["problems"] == {"too_large": rows}
    assert result["mb"] < LIMIT_MB


def test_pages_of_the_format_that_are_too_large_to_decompress_are_not_read(tmp_path):
    write(tmp_path, 600, dictionary=False, query_id=pa.array([MEGABYTE] * 600))
    result = read_in_child(tmp_path)
    assert result["problems"] == {"too_large": 600}
    assert result["mb"] < LIMIT_MB


def test_a_compressed_line_without_an_end_is_not_kept(tmp_path):
    with gzip.open(tmp_path / "log.json.gz", "wb", compresslevel=1) as stream:
        stream.write(b'{"session_id": "s"}\n')
        for _ in range(1500):
            stream.write(MEGABYTE.encode())
        stream.write(b'\n{"session_id": "t"}\n')
    result = read_in_child(tmp_path, "json")
    assert result["problems"] == {"None": 2, "too_large": 1}
    assert result["mb"] < LIMIT_MB
