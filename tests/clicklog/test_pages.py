"""Batches of a Parquet log are converted to the types of the contract."""

from __future__ import annotations

import datetime as dt
import json
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.clicklog import batches, parquet
from ulr.clicklog.conform import conform
from ulr.clicklog.files import find_log, folder_columns
from ulr.warehouse.schema import TIMESTAMP, page_schema, read_schema

ROWS = 7
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)


def log_batch(**columns: pa.Array) -> pa.RecordBatch:
    good = {
        "session_id": pa.array([f"s{n}" for n in range(ROWS)]),
        "query_id": pa.array(["q"] * ROWS),
        "shown_at": pa.array([NOON] * ROWS, TIMESTAMP),
        "doc_ids": pa.array([["a", "b"]] * ROWS),
        "clicks": pa.array([[True, False]] * ROWS),
    }
    return pa.RecordBatch.from_pydict(good | columns)


def test_a_value_that_cannot_be_cast_is_a_bad_type_of_its_row_only():
    clicks = [["true", "false"], None, ["true"], ["no", "maybe"], [], ["false", None], ["1"]]
    when = ["2026-01-01T12:00:00Z"] * 5 + ["yesterday", None]
    read = conform(
        log_batch(clicks=pa.array(clicks), shown_at=pa.array(when)), "log.parquet", page_schema
    )
    assert read["problem"].to_pylist() == [*[None] * 3, "bad_type", None, "bad_type", None]
    assert [text and json.loads(text)["session_id"] for text in read["raw"].to_pylist()] == [
        *[None] * 3, "s3", None, "s5", None,
    ]  # fmt: skip
    assert "maybe" in read["raw"][3].as_py()
    assert read["clicks"].to_pylist() == [
        [True, False], None, [True], None, [], [False, None], [True],
    ]  # fmt: skip
    assert read["shown_at"].to_pylist() == [NOON] * 5 + [None, None]


def test_only_folder_names_with_an_equals_sign_define_columns():
    path = (
        "clicks/dt=2026-01-01/segment=a%2Fb/swapped=__HIVE_DEFAULT_PARTITION__/query_id=q.parquet"
    )
    assert folder_columns(path, page_schema) == {"segment": "a/b", "swapped": None}


def test_list_views_are_read_as_lists():
    # Arrow's cast of list views omits the last offset.
    docs = [["a", "b"], None, [], ["c", None], ["d"], ["e", "f"], ["g"]]
    for kind in (pa.list_view(pa.string()), pa.large_list_view(pa.string())):
        read = conform(log_batch(doc_ids=pa.array(docs, kind)), "log.parquet", page_schema)
        read.validate(full=True)
        assert read["problem"].null_count == ROWS
        assert read["doc_ids"].to_pylist() == docs


def test_pages_with_long_lists_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "BATCH_DOCUMENTS", 40)
    pq.write_table(pa.table({"doc_ids": [["a"] * 20] * ROWS}), tmp_path / "long.parquet",
                   row_group_size=1)  # fmt: skip
    pq.write_table(pa.table({"doc_ids": [["a"]] * ROWS}), tmp_path / "short.parquet")
    log = find_log(str(tmp_path), NOON.date())
    tasks = parquet.plan_tasks(log, 1, partial(parquet._splits, log, page_schema))
    reader = parquet.ParquetReader(log.storage.url, tasks, page_schema, None, read_schema.names)
    read = list(reader.rows(range(len(tasks))))
    assert [b.num_rows for b in read if len(b["doc_ids"][0]) == 20] == [2, 2, 2, 1]
    assert [b.num_rows for b in read if len(b["doc_ids"][0]) == 1] == [ROWS]


def test_nanoseconds_with_or_without_a_time_zone_are_truncated_to_microseconds():
    nanoseconds = int(NOON.timestamp()) * 10**9 + 123_456_789
    for zone in ("UTC", None):
        when = pa.array([nanoseconds] * ROWS, pa.timestamp("ns", zone))
        read = conform(log_batch(shown_at=when), "log.parquet", page_schema)
        assert read["problem"].null_count == ROWS
        assert set(read["shown_at"].to_pylist()) == {NOON + dt.timedelta(microseconds=123_456)}


def test_a_column_that_cannot_be_cast_is_a_bad_type_of_every_row():
    read = conform(
        log_batch(clicks=pa.array(["yes"] * (ROWS - 1) + [None])), "log.parquet", page_schema
    )
    assert read["problem"].to_pylist() == ["bad_type"] * (ROWS - 1) + [None]
    maps = pa.array([[("a", "b")]] * ROWS, pa.map_(pa.string(), pa.string()))
    read = conform(log_batch(doc_ids=maps), "log.parquet", page_schema)
    assert read["problem"].to_pylist() == ["bad_type"] * ROWS
