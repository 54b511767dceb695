"""JSON lines and CSV are read in tasks as Spark's own readers read them."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import io
import json
import random
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from tests.support.logs import DATE, page, write_csv, write_json
from tests.support.spark_text import read_typed_rows
from ulr.clicklog import csv_rows, json_lines, lines, parquet, values
from ulr.clicklog.files import LogFiles
from ulr.clicklog.json_lines import parse_json
from ulr.clicklog.text import open_text
from ulr.clicklog.times import iso_times, parse_time
from ulr.warehouse.schema import impression_schema, page_schema
from ulr.warehouse.storage import Storage

GOOD = {"session_id": "s", "query_id": "q", "shown_at": "2026-01-01T12:00:00Z",
        "doc_ids": ["a", "b"], "clicks": [True, False]}  # fmt: skip

TIMES = """2026|2026-1|2026-01-2|2026-01-02 |2026-01-02T|2026-01-02T1|2026-01-02 1:2
2026-01-02T1:2:3|2026-01-02T12:00:00.1234567|2026-01-02T12:00:00.|2026-01-02T12:00:00+01|2026-01-02T12:00:00+0130
2026-01-02T12:00:00 +01:30|2026-01-02T12:00:00+1:30|2026-01-02T12:00:00 Europe/Paris|2026-02-30
2026-01-02T12:00:00UTC|2026-01-02T12:00:00 GMT+1|2026-01-02T12:00:00z|  2026-01-02T12:00:00Z
2026-01-02T24:00:00|2026-01-02T23:59:60|2026-01-02t12:00:00|2026-01-02T12:00Z|20260102|x
2026-01-02T12:00:00,5|2026-01-02T12:00:00-18:00|2026-01-02T12:00:00+19:00|2026-01-02T12:00:00PST
2026-01-02T12:00:00.5 Z|2026-01-02T12:00:00 UTC+01:00|2026-01-02T12+01|2026-01-02T12:00:00 Mars"""

JSON_VALUES = {
    "shown_at": [*TIMES.replace("\n", "|").split("|"), 1767355200, -1, True, None, [1], ""],
    "query_id": [1, 1.5, True, None, "", "é😀", -0.0, 10**20],
    "doc_ids": [["a", 1], [1, 2], "a", None, [None], {}, []],
    "clicks": [["true"], [2], "x", None, [None, True], [[True]], True, []],
    "swapped": ["true", 2, "", None, [True], True],
}
JSON_LINES = [
    " {0} ", "\t{0}", "", "   ", "{{}}", "null", "[]", "[{0},{0}]", "{0}{0}", "{0} x", "{{", "x",
    '"s"', "1", "{{'session_id':'s'}}", '{{session_id:"s"}}',
    '{{"session_id":"a","session_id":"b"}}',
    '{{"session_id":"a\tb"}}', '{{"session_id":"a\\x"}}', '{{"swapped":true,}}',
    '{{"session_id":NaN}}', '{{"session_id":01}}', "[1]", "[null]", '["x",{{}}]',
    '{{"SESSION_ID":"a"}}',
    '{{"session_id":1.50}}',
    '{{"session_id":"a","clicks":[true,"x"],"shown_at":"bad"}}',
    '{{"session_id":"a","doc_ids":["x"', '{{"session_id": tru}}',
    '{{"session_id":"a", "zzz": tru}}', "{0}\r",
]  # fmt: skip

SPARK_3 = pyspark.__version__.startswith("3.")
# It reads the texts 1.5 and "NaN" with quotes; and a position 1.0 of CSV is 1, no bad type.
OTHERWISE_IN_SPARK_3 = ['{"session_id":1.50}', '{"session_id":NaN}'] if SPARK_3 else []

CSV_CELLS = {
    "shown_at": ["2026-01-02", "x", "", " 2026-01-02T12:00:00Z ", '"2026-01-02 12:00:00"'],
    "query_id": ["", " ", " a ", '"a,b"', '"a""b"', 'a"b', "a\\b", "null", '""""', "#a", "é"],
    "doc_ids": ['""', '"[]"', '"[""a"",1]"', '"[""a"",null]"', '["a"]', "a", '"[""a"""',
                "\"['a']\"", '"[""a""] x"', '"{}"', "null", '" [""a""]"', '"[[1]]"', '"[a]"',
                '"[""a"",]"'],
    "clicks": ['"[true,""x""]"', '"[null]"', '"[True]"', "true", '"[]"'],
    "swapped": ["true", "TRUE", "t", "1", "0", "f", " true", "2", "on", '""'],
}  # fmt: skip
CSV_LINES = ["", "  ", "s,q", "s,q,,,,,,,more,cells", ",,,,,,,", "s", ",", "session_id,query_id"]
CSV_GOOD = {"session_id": "s", "query_id": "q", "shown_at": "2026-01-01T12:00:00Z",
            "doc_ids": '"[""a"",""b""]"', "clicks": '"[true,false]"'}  # fmt: skip


def log_of(folder: Path) -> LogFiles:
    storage = Storage(str(folder))
    return LogFiles(DATE, storage, storage.files(), False)


def rows_in_tasks(log: LogFiles, form: str, schema: pa.Schema = page_schema) -> list[dict]:
    reader = open_text(log, form, schema, 1)
    return [row for b in reader.rows(range(len(reader.tasks))) for row in b.to_pylist()]


def comparable(rows: list[dict]) -> list[str]:
    return [json.dumps(row, default=dt.datetime.isoformat, sort_keys=True) for row in rows]


def rows_of_spark(spark, log: LogFiles, form: str, schema: pa.Schema = page_schema) -> list[dict]:
    frame = read_typed_rows(spark, log, form, schema)
    micros = F.unix_micros("shown_at").alias("shown_at")
    rows = [row.asDict() for row in frame.withColumn("shown_at", micros).collect()]
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
    for row in rows:
        if row["shown_at"] is not None:
            row["shown_at"] = epoch + dt.timedelta(microseconds=row["shown_at"])
    return rows


def test_json_lines_are_read_as_spark_reads_them(spark, tmp_path):
    good = json.dumps(GOOD)
    texts = [json.dumps(GOOD | {name: value})
             for name, cells in JSON_VALUES.items() for value in cells]  # fmt: skip
    texts += [line.format(good) for line in JSON_LINES] + [good[:-1], good[:-20]]
    texts = [text for text in texts if text not in OTHERWISE_IN_SPARK_3]
    (tmp_path / "odd lines.json").write_text("\n".join(texts) + "\n")
    (tmp_path / "good.json").write_text(good + "\n" + good)
    log = log_of(tmp_path)
    expected = rows_of_spark(spark, log, "json")
    assert sorted(comparable(rows_in_tasks(log, "json"))) == sorted(comparable(expected))


def test_csv_lines_are_read_as_spark_reads_them(spark, tmp_path):
    rows = [CSV_GOOD | {name: cell} for name, cells in CSV_CELLS.items() for cell in cells]
    texts = [",".join(row.get(n, "") for n in page_schema.names) for row in [CSV_GOOD, *rows]]
    header = ",".join(page_schema.names)
    (tmp_path / "odd.csv").write_text("\n".join([header, *texts, *CSV_LINES]) + "\n")
    (tmp_path / "good.csv").write_text(f"\n{header}\r\n{texts[0]}\r\n{texts[0]}")
    log = log_of(tmp_path)
    expected = rows_of_spark(spark, log, "csv")
    assert sorted(comparable(rows_in_tasks(log, "csv"))) == sorted(comparable(expected))


@pytest.mark.parametrize("form", ["json", "csv"])
def test_impressions_in_text_are_read_as_spark_reads_them(spark, tmp_path, form):
    positions = ["1", " 1", "+1", "-1", "2147483648", "1e0", "x", "", "01", "true", "null"]
    positions += [] if form == "csv" and SPARK_3 else ["1.0"]
    row = {"session_id": "s", "query_id": "q", "shown_at": "2026-01-01", "doc_id": "a"}
    if form == "json":
        texts = [json.dumps(row | {"position": 7}).replace("7", p) for p in positions]
    else:
        texts = [f"s,q,2026-01-01,a,{p},true" for p in positions]
        texts.insert(0, ",".join([*row, "position,clicked"]))
    (tmp_path / f"log.{form}").write_text("\n".join(texts))
    log = log_of(tmp_path)
    expected = rows_of_spark(spark, log, form, impression_schema)
    rows = rows_in_tasks(log, form, impression_schema)
    assert sorted(comparable(rows)) == sorted(comparable(expected))


def test_what_spark_3_reads_otherwise_is_read_as_by_spark_4(tmp_path):
    texts = ['{"session_id":1.50}', '{"session_id":NaN}']
    (tmp_path / "log.json").write_text("\n".join(texts) + "\n")
    rows = rows_in_tasks(log_of(tmp_path), "json")
    assert [(row["session_id"], row["problem"]) for row in rows] == [("1.50", None), ("NaN", None)]
    (tmp_path / "log.json").unlink()
    header = "session_id,query_id,shown_at,doc_id,position,clicked\n"
    (tmp_path / "log.csv").write_text(f"{header}s,q,2026-01-01,a,1.0,true\n")
    (row,) = rows_in_tasks(log_of(tmp_path), "csv", impression_schema)
    assert (row["position"], row["problem"]) == (None, "bad_type")


@pytest.mark.parametrize("form", ["json", "csv"])
def test_one_file_is_split_and_every_line_is_read_once(tmp_path, monkeypatch, form):
    write = write_json if form == "json" else write_csv
    rng = random.Random(3)
    folder = write(tmp_path / "log", [page(n, rng) for n in range(200)])
    log = log_of(folder)
    expected = comparable(rows_in_tasks(log, form))
    for size in (1000, 3333):
        monkeypatch.setattr(parquet, "MIN_SPLIT_BYTES", size)
        monkeypatch.setattr(parquet, "MAX_SPLIT_BYTES", size)
        assert len(open_text(log, form, page_schema, 1).tasks) > 5
        assert sorted(comparable(rows_in_tasks(log, form))) == sorted(expected)
    assert len(expected) == 200


@given(st.lists(st.binary(max_size=9), max_size=30), st.integers(1, 40), st.integers(1, 25))
def test_ranges_side_by_side_give_each_line_once(texts, length, block):
    content = b"\n".join(texts)
    pieces = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block)
        patch.setattr(lines, "_TAIL_BYTES", 3)
        for start in range(0, max(len(content), 1), length):
            stream = pa.PythonFile(io.BytesIO(content), "r")
            blocks = list(lines.read_blocks(stream, start, start + length))
            assert all(b.endswith(b"\n") for b in blocks[:-1])
            pieces += blocks
    assert b"".join(pieces) == content


@given(st.binary(max_size=60), st.integers(1, 20))
def test_pieces_of_a_block_are_whole_lines(block, size):
    pieces = list(lines.cut_lines(block, size))
    assert b"".join(pieces) == block
    assert all(p.endswith(b"\n") for p in pieces[:-1])


@pytest.mark.parametrize(("suffix", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress)])
@pytest.mark.parametrize("form", ["json", "csv"])
def test_compressed_files_are_read_whole(tmp_path, monkeypatch, suffix, compress, form):
    rng = random.Random(4)
    write = write_json if form == "json" else write_csv
    plain = write(tmp_path / "plain", [page(n, rng) for n in range(50)])
    expected = [row | {"source": ""} for row in rows_in_tasks(log_of(plain), form)]
    (tmp_path / "log").mkdir()
    content = compress((plain / f"log.{form}").read_bytes())
    (tmp_path / "log" / f"log.{form}.{suffix}").write_bytes(content)
    monkeypatch.setattr(parquet, "MIN_SPLIT_BYTES", 100)
    rows = [row | {"source": ""} for row in rows_in_tasks(log_of(tmp_path / "log"), form)]
    assert comparable(rows) == comparable(expected)


def test_a_bad_line_is_the_only_one_that_is_not_read_by_arrow(monkeypatch):
    good = [json.dumps(GOOD | {"session_id": f"s{n}"}) for n in range(5000)]
    good[4000] = good[4000][:-5]
    block = "\n".join(good).encode()
    singly = []
    decode = json_lines.decode
    monkeypatch.setattr(json_lines, "decode", lambda text: singly.append(text) or decode(text))
    table = pa.concat_tables(parse_json(block, page_schema, {}))
    assert table["problem"].to_pylist() == [None] * 4000 + ["bad_type"] + [None] * 999
    assert len(singly) < 1000  # the lines of one piece


def test_numbers_as_ids_are_read_by_arrow(monkeypatch):
    monkeypatch.setattr(json_lines, "decode", None)
    lines_of_numbers = [json.dumps(GOOD | {"query_id": n, "doc_ids": [n, 2**40]}) for n in range(9)]
    table = pa.concat_tables(parse_json("\n".join(lines_of_numbers).encode(), page_schema, {}))
    assert table["query_id"].to_pylist() == [str(n) for n in range(9)]
    assert table["doc_ids"].to_pylist() == [[str(n), str(2**40)] for n in range(9)]


@given(
    st.datetimes(dt.datetime(1971, 1, 1), dt.datetime(2100, 1, 1)),
    st.sampled_from(["", "Z", "+01:00", "-0330", "+09"]),
    st.integers(0, 9),
)
def test_whole_columns_of_times_are_parsed_like_single_texts(time, zone, digits):
    fraction = f".{time.microsecond:06d}789"[: digits + 1] if digits else ""
    texts = [time.strftime("%Y-%m-%dT%H:%M:%S") + fraction + zone, None]
    column = iso_times(pa.array(texts))
    assert column is None or column.cast(pa.int64()).to_pylist() == [parse_time(texts[0]), None]
    assert column is not None


@given(st.lists(st.one_of(
    st.none(), st.text(max_size=8), st.lists(st.text(max_size=3), max_size=3).map(json.dumps)
), max_size=20))  # fmt: skip
def test_lists_in_cells_do_not_depend_on_how_the_column_is_sliced(texts):
    column = pa.array(texts, pa.string())
    kind = pa.list_(pa.string())
    expected = [None if t is None else values._parse_list(t, kind) for t in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "SLICE_ROWS", 3)
        assert values.parse_texts(column, kind).to_pylist() == expected
    assert csv_rows.PIECE_BYTES == json_lines.PIECE_BYTES
