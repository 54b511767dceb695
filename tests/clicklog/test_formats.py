"""Every format, layout and folder structure of a log gives the same groups."""

from __future__ import annotations

import datetime as dt
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.support import oracle
from tests.support.logs import (
    DATE,
    NOON,
    broken_log,
    build,
    page,
    rows_of,
    write_csv,
    write_json,
    write_parquet,
)
from ulr.clicklog.files import LogFiles
from ulr.clicklog.quarantine import reasons_in
from ulr.clicklog.text import open_text, source_url
from ulr.errors import InvalidData, UserError
from ulr.pipeline.describe import describe_groups
from ulr.warehouse.schema import impression_schema, page_schema
from ulr.warehouse.storage import Storage


@pytest.mark.parametrize(("form", "write"), [("json", write_json), ("csv", write_csv)])
def test_text_formats_give_the_same_groups_as_parquet(engine, tmp_path, form, write):
    log, reasons, _ = broken_log(800, seed=6)
    build(engine, tmp_path / "p", write_parquet(tmp_path / "parquet", log))
    text = build(engine, tmp_path / "t", write(tmp_path / form, log), f"log.format={form}")
    assert rows_of(tmp_path / "t", "groups") == rows_of(tmp_path / "p", "groups")
    assert reasons_in(text.manifest.counts) == reasons


def test_every_csv_file_is_read_with_its_own_header(engine, tmp_path):
    rng = random.Random(15)
    log = [page(n, rng) for n in range(60)]
    names = list(log[0])
    for number, order in enumerate((names[:5], names, names[::-1])):
        rows = [{n: row[n] for n in order} for row in log[number::3]]
        path = write_csv(tmp_path / "csv" / f"{number}", rows)
    (path / "empty.csv").write_text("")
    plain = [row if n % 3 else row | dict.fromkeys(names[5:]) for n, row in enumerate(log)]
    build(engine, tmp_path / "w", tmp_path / "csv", "log.format=csv")
    rows = rows_of(tmp_path / "w", "groups")
    assert oracle.expand_groups(rows) == oracle.click_histograms(plain, 50)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_value_of_the_wrong_type_is_quarantined_with_its_text(engine, tmp_path, form):
    rng = random.Random(7)
    log = [page(n, rng) for n in range(3)]
    path = (write_json if form == "json" else write_csv)(tmp_path / "log", log)
    file = path / f"log.{form}"
    lines = file.read_text().splitlines()
    lines[-1] = lines[-1].replace("2026-01-01T12", "yesterday")
    file.write_text("\n".join(lines) + "\n")
    outcome = build(engine, tmp_path / "w", path, f"log.format={form}")
    assert outcome.manifest.counts["bad:bad_type"] == 1
    (row,) = rows_of(tmp_path / "w", "quarantine")
    assert "yesterday" in row["raw"]
    assert Path(row["source"]).name == f"log.{form}"


def test_a_parquet_column_of_the_wrong_type_is_quarantined(engine, tmp_path):
    rng = random.Random(8)
    rows = [page(n, rng) for n in range(5)]
    write_parquet(tmp_path / "log", rows, files=1)
    table = pa.Table.from_pylist(rows, schema=page_schema)
    at = table.schema.get_field_index("clicks")
    table = table.set_column(at, "clicks", pa.array(["yes"] * 5))
    pq.write_table(table, tmp_path / "log" / "part-9.parquet")
    outcome = build(engine, tmp_path / "w", tmp_path / "log")
    assert outcome.manifest.counts["bad:bad_type"] == 5
    assert outcome.manifest.counts["pages"] == 5
    assert all('"yes"' in row["raw"] for row in rows_of(tmp_path / "w", "quarantine"))


def impressions_of(rows: list[dict]) -> list[dict]:
    return [
        {n: row[n] for n in impression_schema.names if n in row}
        | {"doc_id": doc, "position": k, "clicked": click}
        for row in rows
        for k, (doc, click) in enumerate(
            zip(row["doc_ids"], row["clicks"], strict=True), start=1
        )
    ]  # fmt: skip


def write_impressions(folder: Path, rows: list[dict]) -> Path:
    folder.mkdir()
    table = pa.Table.from_pylist(rows, schema=impression_schema)
    pq.write_table(table, folder / "log.parquet")
    return folder


def test_impressions_give_the_same_groups_as_pages(engine, tmp_path):
    rng = random.Random(9)
    log = [page(n, rng) for n in range(500)]
    rows = impressions_of(log)
    repeated = rows + rows[:40]
    rng.shuffle(repeated)
    build(engine, tmp_path / "p", write_parquet(tmp_path / "pages", log))
    path = write_impressions(tmp_path / "impressions", repeated)
    outcome = build(engine, tmp_path / "i", path, "log.layout=impression")
    assert rows_of(tmp_path / "i", "groups") == rows_of(tmp_path / "p", "groups")
    assert outcome.manifest.counts["duplicate_rows"] == 40


def test_every_file_of_impressions_is_read_with_its_own_columns_and_types(engine, tmp_path):
    # One file lacks the optional columns, one has nanoseconds as pandas writes them, and one has
    # numeric query ids and floating-point positions.
    rng = random.Random(16)
    pages = [page(n, rng) | {"query_id": f"{n % 7}"} for n in range(60)]
    tables = []
    for n in range(3):
        table = pa.Table.from_pylist(impressions_of(pages[n::3]), schema=impression_schema)
        tables.append(table)
    tables[0] = tables[0].drop_columns(["segment", "bucket", "swapped"])
    for number, name, kind in ((1, "shown_at", pa.timestamp("ns")), (2, "query_id", pa.int64()),
                               (2, "position", pa.float64())):  # fmt: skip
        at = tables[number].schema.get_field_index(name)
        tables[number] = tables[number].set_column(at, name, tables[number][name].cast(kind))
    (tmp_path / "log").mkdir()
    for n, table in enumerate(tables):
        pq.write_table(table, tmp_path / "log" / f"part-{n}.parquet")
    build(engine, tmp_path / "w", tmp_path / "log", "log.layout=impression")
    bare = {"segment": None, "bucket": None, "swapped": None}
    plain = [row if n % 3 else row | bare for n, row in enumerate(pages)]
    rows = rows_of(tmp_path / "w", "groups")
    assert oracle.expand_groups(rows) == oracle.click_histograms(plain, 50)


def test_a_position_that_is_not_a_whole_number_is_quarantined(engine, tmp_path):
    rows = impressions_of([page(1, random.Random(17)) | {"doc_ids": ["a", "b"],
                                                         "clicks": [True, False]}])  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=impression_schema)
    at = table.schema.get_field_index("position")
    (tmp_path / "log").mkdir()
    table = table.set_column(at, "position", pa.array([1.0, 2.7]))
    pq.write_table(table, tmp_path / "log" / "part-0.parquet")
    build(engine, tmp_path / "w", tmp_path / "log", "log.layout=impression")
    (row,) = rows_of(tmp_path / "w", "quarantine")
    assert (row["reason"], json.loads(row["raw"])["position"]) == ("bad_type", 2.7)


def test_broken_impressions_are_quarantined_by_session(engine, tmp_path):
    def shown(session, position, doc="d", clicked=False, query="q"):
        return {"session_id": session, "query_id": query, "shown_at": NOON, "doc_id": doc,
                "position": position, "clicked": clicked}  # fmt: skip

    rows = [
        shown("gap", 1, "a"), shown("gap", 3, "b"),
        shown("from two", 2),
        shown("twice", 1, "a"), shown("twice", 1, "b"),
        shown("nowhere", None),
        shown("disagree", 1, "a", query="x"), shown("disagree", 2, "b", query="y"),
        shown("no doc", 1, None),
        shown(None, 1),
        shown("good", 2, "b", clicked=True), shown("good", 1, "a"),
    ]  # fmt: skip
    path = write_impressions(tmp_path / "log", rows)
    outcome = build(engine, tmp_path / "w", path, "log.layout=impression")
    reasons = {r["session_id"]: r["reason"] for r in rows_of(tmp_path / "w", "quarantine")}
    assert reasons == {
        "gap": "position_gap",
        "from two": "position_gap",
        "twice": "duplicate_position",
        "nowhere": "null_position",
        "disagree": "conflicting_rows",
        "no doc": "null_doc_id",
        None: "null_session_id",
    }
    assert outcome.manifest.counts["pages"] == 1
    (group,) = rows_of(tmp_path / "w", "groups")
    assert (group["doc_ids"], group["patterns"], group["counts"]) == (["a", "b"], [2], [1])


def test_a_log_without_date_folders_is_filtered_by_time(engine, tmp_path):
    rng = random.Random(10)
    next_day = DATE + dt.timedelta(days=1)
    today, tomorrow = ([page(n, rng, d) for n in range(100)] for d in (DATE, next_day))
    tomorrow = [p | {"session_id": f"t{p['session_id']}"} for p in tomorrow]
    path = write_parquet(tmp_path / "log", today + tomorrow)
    build(engine, tmp_path / "w", path)
    build(engine, tmp_path / "w", path, date=next_day)
    for date, pages in ((DATE, today), (next_day, tomorrow)):
        rows = rows_of(tmp_path / "w", "groups", date)
        assert oracle.expand_groups(rows) == oracle.click_histograms(pages, 50)


@pytest.mark.parametrize("form", ["parquet", "json", "csv"])
def test_folder_names_may_define_columns(engine, tmp_path, form):
    # As Spark's partitionBy writes them: not in the files, and with a special name for null.
    rng = random.Random(19)
    log = [page(n, rng) for n in range(40)]
    write = {"parquet": write_parquet, "json": write_json, "csv": write_csv}[form]
    for segment, name in ((None, "__HIVE_DEFAULT_PARTITION__"), ("mobile", "mobile")):
        rows = [{n: v for n, v in row.items() if n != "segment"}
                for row in log if row["segment"] == segment]  # fmt: skip
        path = write(tmp_path / "log" / f"dt={DATE}" / f"segment={name}", rows)
        for file in path.glob("*.parquet"):
            pq.write_table(pq.read_table(file, partitioning=None).drop_columns("segment"), file)
    build(engine, tmp_path / "w", tmp_path / "log", f"log.format={form}")
    rows = rows_of(tmp_path / "w", "groups")
    assert oracle.expand_groups(rows) == oracle.click_histograms(log, 50)


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_log_without_rows_gives_an_empty_table_only_if_no_page_is_required(
    engine, tmp_path, form
):
    write = write_parquet if form == "parquet" else write_json
    path = write(tmp_path / "log", [])
    outcome = build(engine, tmp_path / "w", path, f"log.format={form}")
    expected = "0 pages -> 0 groups, 0 patterns; the log has no row of this date"
    assert describe_groups(outcome) == expected
    assert rows_of(tmp_path / "w", "groups") == []
    with pytest.raises(InvalidData, match=r"0 valid pages in 0 rows.*log.min_pages = 1"):
        build(engine, tmp_path / "w", path, f"log.format={form}", "log.min_pages=1")


def test_a_log_that_cannot_be_read_is_reported_with_the_cause(engine, tmp_path):
    with pytest.raises(UserError, match="no log files at"):
        build(engine, tmp_path / "w", tmp_path / "absent")
    write_parquet(tmp_path / "log" / f"dt={DATE}", [page(1, random.Random(0))])
    with pytest.raises(UserError, match="no folder dt=2026-02-02"):
        build(engine, tmp_path / "w", tmp_path / "log", date=dt.date(2026, 2, 2))
    path = write_impressions(tmp_path / "impressions", [])
    with pytest.raises(UserError, match=r"no column doc_ids, clicks; .*layout=impression"):
        build(engine, tmp_path / "w", path)
    (path / "log.parquet").write_text("session_id,query_id\n")
    with pytest.raises(
        UserError, match=r"log.parquet is not a readable Parquet file: .*log.format"
    ):
        build(engine, tmp_path / "w", path)
    (tmp_path / "log" / f"dt={DATE}" / "part-9.parquet").touch()
    with pytest.raises(UserError, match=r"part-9.parquet is not a readable Parquet file"):
        build(engine, tmp_path / "w", tmp_path / "log")


def test_the_name_of_a_text_file_may_contain_special_characters(tmp_path):
    rng = random.Random(18)
    path = write_json(tmp_path / "log {old} [1]", [page(n, rng) for n in range(5)])
    (path / "log.json").rename(path / "what? [a-b].json")
    log_files = LogFiles(DATE, Storage(str(path)), Storage(str(path)).files(), False)
    rows = open_text(log_files, "json", page_schema, 1).rows([0])
    assert sum(batch.num_rows for batch in rows) == 5


@pytest.mark.parametrize(
    ("folder", "expected"),
    [("/data/log", "file:/data/log/a/b.json"),
     ("hdfs://name:8020/log", "hdfs://name:8020/log/a/b.json"),
     ("abfs://box@account.host/log?x=1", "abfs://box@account.host/log/a/b.json"),
     ("s3a://bucket", "s3a://bucket/a/b.json")],
)  # fmt: skip
def test_the_url_of_a_source_keeps_the_filesystem_of_the_log(folder, expected):
    assert source_url(folder, "a/b.json") == expected


@pytest.mark.parametrize(
    "pattern", ["dt={date}", "*/part-*.parquet", "dt=2026-01-01/part-0.parquet"]
)
def test_a_path_may_contain_the_date_or_a_pattern_or_be_one_file(engine, tmp_path, pattern):
    rng = random.Random(14)
    log = tmp_path / "log"
    write_parquet(log / f"dt={DATE}", [page(n, rng) for n in range(30)], files=1)
    outcome = build(engine, tmp_path / "w", log / pattern)
    assert outcome.manifest.counts["pages"] == 30
