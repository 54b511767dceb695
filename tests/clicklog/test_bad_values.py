"""Values that are no clicks, times or texts, through the readers of every format."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import DATE, NOON
from ulr.clicklog import lines
from ulr.clicklog.conform import conform
from ulr.clicklog.contract import check_pages
from ulr.clicklog.files import find_log
from ulr.clicklog.parquet import open_log
from ulr.clicklog.text import open_text
from ulr.clicklog.times import epoch_times, parse_time
from ulr.warehouse.schema import TIMESTAMP, impression_schema, page_schema

GOOD = {"session_id": "s", "query_id": "q", "shown_at": "2026-01-01T12:00:00Z",
        "doc_ids": ["a", "b"], "clicks": [True, False]}  # fmt: skip
SECONDS = int(NOON.timestamp())
EPOCHS = [SECONDS, SECONDS * 10**3, SECONDS * 10**6, SECONDS * 10**9]


def read(folder: Path, form: str, schema: pa.Schema = page_schema) -> list[dict]:
    log = find_log(str(folder), DATE)
    reader = open_log(log, schema, 1) if form == "parquet" else open_text(log, form, schema, 1)
    return [r for b in reader.rows(range(len(reader.tasks))) for r in b.to_pylist()]


def read_json(folder: Path, *texts: str) -> list[dict]:
    (folder / "log.json").write_text("\n".join(texts) + "\n")
    return read(folder, "json")


@pytest.mark.parametrize("value", ["2", "-1", "NaN", "0.5", '"yes"', '"1"', "[1]", "1e400"])
def test_only_booleans_and_the_numbers_0_and_1_are_clicks_in_text(tmp_path, value):
    good = [json.dumps(GOOD | {"session_id": f"s{n}", "clicks": [1, 0]}) for n in range(4)]
    bad = good[2].replace("[1, 0]", f"[{value}, 0]")
    rows = read_json(tmp_path, *good[:2], bad, good[3])
    assert [r["problem"] for r in rows] == [None, None, "bad_type", None]
    assert [r["clicks"] for r in rows] == [[True, False], [True, False], None, [True, False]]
    (tmp_path / "csv").mkdir()
    header = "session_id,query_id,shown_at,doc_ids,clicks"
    line = 's,q,2026-01-01,"[""a"",""b""]","[{}, 0.0]"'
    texts = [header, line.format(1), line.format("true").replace("0.0", "0")]
    texts.append(line.format(value.replace('"', '""')))
    (tmp_path / "csv" / "log.csv").write_text("\n".join(texts))
    rows = read(tmp_path / "csv", "csv")
    assert [r["problem"] for r in rows] == [None, None, "bad_type"]
    assert rows[0]["clicks"] == rows[1]["clicks"] == [True, False]


@pytest.mark.parametrize("form", ["json", "csv"])
def test_only_booleans_and_the_numbers_0_and_1_are_clicks_of_impressions_in_text(tmp_path, form):
    cells = ["true", "1", "0", "2", "-1", "0.5", "NaN", '"yes"']
    row = {"session_id": "s", "query_id": "q", "shown_at": "2026-01-01", "doc_id": "a"}
    texts = [json.dumps(row | {"position": 1, "clicked": 7}).replace("7", c) for c in cells]
    if form == "csv":
        texts = [",".join([*row, "position,clicked"])]
        texts += [f"s,q,2026-01-01,a,1,{c.strip(chr(34))}" for c in cells]
    (tmp_path / f"log.{form}").write_text("\n".join(texts))
    rows = read(tmp_path, form, impression_schema)
    assert [r["clicked"] for r in rows] == [True, True, False] + [None] * 5
    assert [r["problem"] for r in rows] == [None] * 3 + ["bad_type"] * 5


@pytest.mark.parametrize(
    ("kind", "odd"),
    [(pa.int8(), -1), (pa.int64(), 2), (pa.uint16(), 256), (pa.float32(), math.nan),
     (pa.float64(), 0.5), (pa.float64(), math.inf), (pa.decimal128(5, 1), Decimal("1.5"))],
)  # fmt: skip
def test_numbers_of_a_parquet_column_are_clicks_only_if_0_or_1(tmp_path, kind, odd):
    values = [[1, 0], [0, 1], [odd, 0], [None, 1], None, [0, 0]]
    values = [v and [None if x is None else Decimal(x) if pa.types.is_decimal(kind) else x
                     for x in v] for v in values]  # fmt: skip
    columns = {name: [value] * 6 for name, value in GOOD.items()}
    columns["clicks"] = pa.array(values, pa.list_(kind))
    pq.write_table(pa.table(columns), tmp_path / "log.parquet")
    rows = read(tmp_path, "parquet")
    assert [r["problem"] for r in rows] == [None, None, "bad_type", None, None, None]
    expected = [[True, False], [False, True], None, [None, True], None, [False, False]]
    assert [r["clicks"] for r in rows] == expected
    sliced = pa.RecordBatch.from_pydict(columns).slice(2, 3)
    assert conform(sliced, "log", page_schema)["clicks"].to_pylist() == expected[2:5]
    flags = pa.RecordBatch.from_pydict({"clicked": columns["clicks"].flatten()})
    assert conform(flags, "log", impression_schema)["clicked"][4].as_py() is None


def test_epochs_are_read_in_the_unit_of_their_magnitude_in_every_format(tmp_path):
    texts = [json.dumps(GOOD | {"shown_at": e}) for e in [*EPOCHS, *map(str, EPOCHS)]]
    texts.append(json.dumps(GOOD | {"shown_at": SECONDS + 0.25}))
    rows = read_json(tmp_path, *texts)
    assert {r["shown_at"].replace(microsecond=0) for r in rows} == {NOON}
    for number, kind in enumerate((pa.int64(), pa.uint64(), pa.float64())):
        (tmp_path / str(number)).mkdir()
        columns = {name: [value] * 4 for name, value in GOOD.items()}
        columns["shown_at"] = pa.array(EPOCHS).cast(kind, safe=False)
        pq.write_table(pa.table(columns), tmp_path / str(number) / "log.parquet")
        assert {r["shown_at"] for r in read(tmp_path / str(number), "parquet")} == {NOON}
    header = "session_id,query_id,shown_at,doc_ids,clicks"
    (tmp_path / "csv").mkdir()
    cells = [*EPOCHS, f"{SECONDS}.0"]
    (tmp_path / "csv" / "log.csv").write_text("\n".join([header, *(f"s,q,{c},," for c in cells)]))
    assert {r["shown_at"] for r in read(tmp_path / "csv", "csv")} == {NOON}


@given(st.integers(946_684_800, 4_133_980_799), st.sampled_from([1, 10**3, 10**6, 10**9]))
def test_every_second_of_2000_to_2100_is_read_from_every_unit(second, unit):
    (time,) = epoch_times(pa.array([second * unit])).cast(pa.int64()).to_pylist()
    assert time == second * 10**6
    if second >= 10**9:
        assert parse_time(str(second * unit)) == time


def test_times_out_of_range_are_kept_for_quarantine_when_a_log_is_filtered_by_date(tmp_path):
    times = [NOON.isoformat(), "1970-01-01T00:00:00Z", "2101-01-01", "2027-01-01", 1]
    rows = read_json(tmp_path, *(json.dumps(GOOD | {"shown_at": t}) for t in times))
    assert [r["shown_at"].year for r in rows] == [2026, 1970, 2101, 1970]
    log = find_log(str(tmp_path), DATE)
    (batch,) = open_text(log, "json", page_schema, 1).rows([0])
    assert check_pages(batch).reason.to_pylist() == [None] + ["date_out_of_range"] * 3


def test_texts_of_a_parquet_file_that_are_not_utf8_are_quarantined_with_replacements(tmp_path):
    content = pa.array([b"q", "é".encode(), b"\xff\xfe", None, b"q"], pa.binary())
    invalid = pa.Array.from_buffers(pa.string(), 5, content.buffers())
    columns = {name: [value] * 5 for name, value in GOOD.items()} | {"query_id": invalid}
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 2, 4, 5], pa.int32()), invalid)
    for name, bad, values in (("query_id", [2], invalid), ("doc_ids", [3], lists)):
        pq.write_table(pa.table(columns | {"query_id": ["q"] * 5, name: values}),
                       tmp_path / "log.parquet")  # fmt: skip
        rows = read(tmp_path, "parquet")
        assert [n for n, r in enumerate(rows) if r["problem"] == "bad_encoding"] == bad
        assert all("\\ufffd" in rows[n]["raw"] and rows[n][name] is None for n in bad)


@pytest.mark.parametrize("value", ['"\\ud800"', '"x\\udfff"', '{"a": "\\ud800"}'])
def test_half_of_a_surrogate_pair_is_not_a_text(tmp_path, value):
    good = json.dumps(GOOD)
    rows = read_json(tmp_path, good, good.replace('"q"', value), good)
    assert [r["problem"] for r in rows] == [None, "bad_encoding", None]


def test_deep_nesting_long_numbers_and_nul_characters_are_values_or_bad_types(tmp_path):
    good = json.dumps(GOOD)
    odd = ["[" * 900 + "]" * 900, "[" * 100_000 + "]" * 100_000, "9" * 5000, '"a\\u0000b"']
    rows = read_json(tmp_path, good, *(good.replace('"q"', text) for text in odd))
    assert [r["problem"] for r in rows[2:]] == ["bad_type", None, None]
    assert rows[3]["query_id"] == "9" * 5000


def test_a_line_that_is_too_long_is_quarantined_and_the_rest_is_read(tmp_path):
    good = json.dumps(GOOD)
    rows = read_json(tmp_path, good, good + " " * lines.MAX_ROW_BYTES, good, good)
    assert [r["problem"] for r in rows] == [None, "too_large", None, None]
    assert len(rows[1]["raw"]) < 100_000


@given(st.lists(st.binary(max_size=30), max_size=20), st.integers(1, 60), st.integers(1, 25))
def test_ranges_side_by_side_give_each_long_line_once(texts, length, block):
    content = b"\n".join(t.replace(b"\n", b"x") for t in texts)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("BLOCK_BYTES", block), ("_TAIL_BYTES", 3), ("MAX_ROW_BYTES", 12),
                            ("KEPT_BYTES", 5)):  # fmt: skip
            patch.setattr(lines, name, value)
        for start in range(0, max(len(content), 1), length):
            stream = pa.BufferReader(content)
            for piece in lines.read_blocks(stream, start, start + length):
                long = isinstance(piece, lines.LongLine)
                found += [(piece, True)] if long else [(t, False) for t in piece.splitlines(True)]
    kept = content.split(b"\n")
    kept = [t + b"\n" for t in kept[:-1]] + ([kept[-1]] if kept[-1] else [])
    expected = [(t[:5], True) if len(t) > 12 else (t, False) for t in kept]
    assert [e for e in found if e[1]] == [e for e in expected if e[1]]
    shorter = b"".join(t for t, long in found if not long)
    assert shorter == b"".join(t for t, long in expected if not long)


def test_timestamps_keep_their_type():
    assert epoch_times(pa.array([], pa.int64())).type == TIMESTAMP
