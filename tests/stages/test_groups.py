from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from functools import partial
from pathlib import Path

import oracle
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PythonException
from pyspark.sql import types as T

from ulr import parquetlogs
from ulr.cli import user_error_of_a_task
from ulr.commands.groups import describe
from ulr.config import load_settings
from ulr.daily import build_groups
from ulr.errors import DataRefused, UserError
from ulr.logfiles import LogFiles
from ulr.schema import groups_schema, impression_schema, page_schema, quarantine_schema
from ulr.storage import Storage
from ulr.textlogs import read_typed_rows, spark_url
from ulr.warehouse import Warehouse
from ulr.window import merge_window

DATE = dt.date(2026, 1, 1)
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def page(number: int, rng: random.Random, date: dt.date = DATE) -> dict:
    """A good page with some variety."""
    length = rng.randint(1, 6)
    docs = rng.sample([f"d{i}" for i in range(8)], length)
    bucket = rng.choice([None, None, "1:2"]) if length > 1 else None
    return {
        "session_id": f"s{number}",
        "query_id": f"q{int(rng.expovariate(0.5))}",
        "shown_at": dt.datetime(date.year, date.month, date.day, 12, tzinfo=dt.UTC),
        "doc_ids": docs,
        "clicks": [rng.random() < 0.3 for _ in docs],
        "segment": rng.choice([None, "mobile"]),
        "bucket": bucket,
        "swapped": rng.random() < 0.5 if bucket else None,
    }


BREAK = {
    "null_session_id": {"session_id": None},
    "null_query_id": {"query_id": ""},
    "null_shown_at": {"shown_at": None},
    "null_doc_ids": {"doc_ids": None},
    "null_clicks": {"clicks": None},
    "length_mismatch": {"doc_ids": ["a", "b"], "clicks": [True]},
    "empty_page": {"doc_ids": [], "clicks": []},
    "null_doc_id": {"doc_ids": ["a", None], "clicks": [True, False]},
    "null_click": {"doc_ids": ["a", "b"], "clicks": [None, False]},
    "duplicate_document": {"doc_ids": ["a", "a"], "clicks": [True, False]},
    "bad_bucket": {"bucket": "1-5", "swapped": True},
    "bucket_past_end": {"bucket": "1:99", "swapped": True},
    "bucket_without_arm": {"bucket": "1:2", "swapped": None, "doc_ids": ["a", "b"],
                           "clicks": [True, False]},
    "swap_without_bucket": {"bucket": None, "swapped": True},
}  # fmt: skip


def broken_log(rows: int, seed: int) -> tuple[list[dict], Counter, list[dict]]:
    """Rows in random order, how many broke which rule, and the pages that must be counted."""
    rng = random.Random(seed)
    log, reasons, good = [], Counter(), []
    for number in range(rows):
        row = page(number, rng)
        if rng.random() < 0.1:
            reason = rng.choice(sorted(BREAK))
            log.append(row | BREAK[reason])
            reasons[reason] += 1
        else:
            log.append(row)
            good.append(row)
            if rng.random() < 0.05:  # the same page delivered twice
                log.append(dict(row))
            if rng.random() < 0.02:  # a later page under the same session id
                later = page(number, rng) | {"shown_at": NOON + dt.timedelta(minutes=5)}
                log.append(later)
    rng.shuffle(log)
    return log, reasons, good


def write_parquet(folder: Path, rows: list[dict], files: int = 3) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(files):
        table = pa.Table.from_pylist(rows[n::files], schema=page_schema)
        pq.write_table(table, folder / f"part-{n}.parquet", row_group_size=700)
    return folder


def settings(log: Path, *changes: str):
    return load_settings(
        None, [f"sessions.path={log}", "groups.partitions=3", "sessions.max_bad_share=1", *changes]
    )


def build(spark, root: Path, log: Path, *changes: str, date: dt.date = DATE, force: bool = False):
    chosen = settings(log, *changes)
    warehouse = Warehouse(str(root))
    sessions, groups = chosen.sessions, chosen.groups
    start = partial(lambda: spark)
    return build_groups(
        start, warehouse, date, sessions=sessions, groups=groups, force=force
    )  # fmt: skip


def rows_of(root: Path, table: str, date: dt.date = DATE) -> list[dict]:
    files = Warehouse(str(root)).files(table, f"dt={date}")
    return [row for f in files for row in pq.read_table(f).to_pylist()]


def test_ten_thousand_rows_with_every_kind_of_broken_row_are_counted_exactly(spark, tmp_path):
    log, reasons, good = broken_log(10_000, seed=1)
    outcome = build(spark, tmp_path / "w", write_parquet(tmp_path / "log", log))
    counts = outcome.manifest.counts
    bad = {name[4:]: n for name, n in counts.items() if name.startswith("bad:")}
    assert bad == reasons
    assert counts["read"] == len(log)
    assert counts["pages"] == len(good)
    assert counts["queries"] == len({page["query_id"] for page in good})
    assert counts["duplicates"] == len(log) - len(good) - reasons.total()
    groups = rows_of(tmp_path / "w", "groups")
    assert oracle.expand_groups(groups) == oracle.click_histograms(good, 50)
    quarantine = rows_of(tmp_path / "w", "quarantine")
    assert Counter(row["reason"] for row in quarantine) == reasons
    kept = Counter(json.dumps({n: row[n] for n in page_schema.names}, default=str)
                   for row in quarantine)  # fmt: skip
    broken = Counter(json.dumps(row, default=str) for row in log if oracle.broken_rule(row))
    assert kept == broken
    assert all(Path(row["source"]).name.startswith("part-") for row in quarantine)


def test_tables_have_their_schemas_and_a_query_lives_in_one_file(spark, tmp_path):
    log, _, _ = broken_log(2000, seed=2)
    build(spark, tmp_path / "w", write_parquet(tmp_path / "log", log))
    warehouse = Warehouse(str(tmp_path / "w"))
    homes: dict[str, set] = {}
    for path in warehouse.files("groups", f"dt={DATE}"):
        table = pq.read_table(path)
        assert table.schema.equals(groups_schema)
        for query in table["query_id"].to_pylist():
            homes.setdefault(query, set()).add(path)
    assert all(len(home) == 1 for home in homes.values())
    (first, *_) = warehouse.files("quarantine", f"dt={DATE}")
    assert pq.read_schema(first).equals(quarantine_schema)


def test_the_files_a_log_is_cut_into_do_not_change_a_byte(spark, tmp_path):
    log, _, _ = broken_log(3000, seed=3)
    build(spark, tmp_path / "a", write_parquet(tmp_path / "one", log, files=1))
    build(spark, tmp_path / "b", write_parquet(tmp_path / "five", log[::-1], files=5))
    files = [Warehouse(str(tmp_path / x)).files("groups", f"dt={DATE}") for x in "ab"]
    contents = [[Path(f).read_bytes() for f in some] for some in files]
    assert contents[0] == contents[1]


def test_how_tasks_cut_a_log_does_not_change_a_byte_of_quarantine(spark, tmp_path, monkeypatch):
    path = write_parquet(tmp_path / "log", broken_log(3000, seed=20)[0])
    build(spark, tmp_path / "a", path)
    monkeypatch.setattr(parquetlogs, "MIN_SPLIT_BYTES", 1)
    build(spark, tmp_path / "b", path)
    files = [Warehouse(str(tmp_path / x)).files("quarantine", f"dt={DATE}") for x in "ab"]
    contents = [[Path(f).read_bytes() for f in some] for some in files]
    assert contents[0] == contents[1]


def test_when_most_sessions_repeat_every_page_is_compared_and_the_result_is_the_same(
    spark, tmp_path
):
    log, _, _ = broken_log(1500, seed=4)
    path = write_parquet(tmp_path / "log", log)
    build(spark, tmp_path / "few", path)
    build(spark, tmp_path / "many", path, "sessions.max_duplicates_held=0")
    assert rows_of(tmp_path / "few", "groups") == rows_of(tmp_path / "many", "groups")
    manifests = [Warehouse(str(tmp_path / x)).current("groups", f"dt={DATE}")
                 for x in ("few", "many")]  # fmt: skip
    assert manifests[0].counts == manifests[1].counts


def test_long_lists_are_cut_and_counted(spark, tmp_path):
    rng = random.Random(5)
    log = [page(n, rng) for n in range(300)]
    path = write_parquet(tmp_path / "log", log)
    outcome = build(spark, tmp_path / "w", path, "groups.max_position=3")
    assert outcome.manifest.counts["cut"] == sum(len(p["doc_ids"]) > 3 for p in log)
    expected = oracle.click_histograms(log, 3)
    assert oracle.expand_groups(rows_of(tmp_path / "w", "groups")) == expected


def write_json(folder: Path, rows: list[dict]) -> Path:
    folder.mkdir(parents=True)
    lines = [json.dumps(row, default=lambda t: t.isoformat()) for row in rows]
    (folder / "log.json").write_text("\n".join(lines) + "\n")
    return folder


def write_csv(folder: Path, rows: list[dict]) -> Path:
    folder.mkdir(parents=True)
    flat = [
        {n: json.dumps(v) if isinstance(v, list) else None if v is None else
            v.isoformat() if isinstance(v, dt.datetime) else str(v).lower()
            if isinstance(v, bool) else v for n, v in row.items()}
        for row in rows
    ]  # fmt: skip
    schema = pa.schema([(n, pa.string()) for n in rows[0]])
    pa.csv.write_csv(pa.Table.from_pylist(flat, schema=schema), folder / "log.csv")
    return folder


@pytest.mark.parametrize(("form", "write"), [("json", write_json), ("csv", write_csv)])
def test_text_formats_give_the_same_groups_as_parquet(spark, tmp_path, form, write):
    log, reasons, _ = broken_log(800, seed=6)
    build(spark, tmp_path / "p", write_parquet(tmp_path / "parquet", log))
    text = build(spark, tmp_path / "t", write(tmp_path / form, log), f"sessions.format={form}")
    assert rows_of(tmp_path / "t", "groups") == rows_of(tmp_path / "p", "groups")
    bad = {name[4:]: n for name, n in text.manifest.counts.items() if name.startswith("bad:")}
    assert bad == reasons


def test_every_csv_file_is_read_by_its_own_header(spark, tmp_path):
    rng = random.Random(15)
    log = [page(n, rng) for n in range(60)]
    names = list(log[0])
    for number, order in enumerate((names[:5], names, names[::-1])):
        rows = [{n: row[n] for n in order} for row in log[number::3]]
        path = write_csv(tmp_path / "csv" / f"{number}", rows)
    (path / "empty.csv").write_text("")
    plain = [row if n % 3 else row | dict.fromkeys(names[5:]) for n, row in enumerate(log)]
    build(spark, tmp_path / "w", tmp_path / "csv", "sessions.format=csv")
    rows = rows_of(tmp_path / "w", "groups")
    assert oracle.expand_groups(rows) == oracle.click_histograms(plain, 50)


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_value_of_the_wrong_type_is_quarantined_with_its_text(spark, tmp_path, form):
    rng = random.Random(7)
    log = [page(n, rng) for n in range(3)]
    path = (write_json if form == "json" else write_csv)(tmp_path / "log", log)
    file = path / f"log.{form}"
    lines = file.read_text().splitlines()
    lines[-1] = lines[-1].replace("2026-01-01T12", "yesterday")
    file.write_text("\n".join(lines) + "\n")
    outcome = build(spark, tmp_path / "w", path, f"sessions.format={form}")
    assert outcome.manifest.counts["bad:bad_type"] == 1
    (row,) = rows_of(tmp_path / "w", "quarantine")
    assert "yesterday" in row["raw"]
    assert Path(row["source"]).name == f"log.{form}"


def test_a_parquet_column_of_the_wrong_type_is_quarantined(spark, tmp_path):
    rng = random.Random(8)
    rows = [page(n, rng) for n in range(5)]
    write_parquet(tmp_path / "log", rows, files=1)
    table = pa.Table.from_pylist(rows, schema=page_schema)
    at = table.schema.get_field_index("clicks")
    table = table.set_column(at, "clicks", pa.array(["yes"] * 5))
    pq.write_table(table, tmp_path / "log" / "part-9.parquet")
    outcome = build(spark, tmp_path / "w", tmp_path / "log")
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


def test_impressions_give_the_same_groups_as_pages(spark, tmp_path):
    rng = random.Random(9)
    log = [page(n, rng) for n in range(500)]
    rows = impressions_of(log)
    repeated = rows + rows[:40]
    rng.shuffle(repeated)
    build(spark, tmp_path / "p", write_parquet(tmp_path / "pages", log))
    path = write_impressions(tmp_path / "impressions", repeated)
    outcome = build(spark, tmp_path / "i", path, "sessions.layout=impression")
    assert rows_of(tmp_path / "i", "groups") == rows_of(tmp_path / "p", "groups")
    assert outcome.manifest.counts["duplicate_rows"] == 40


def test_every_file_of_impressions_is_read_by_its_own_columns(spark, tmp_path):
    """One without the optional columns, one as pandas writes it, one with numbers for names."""
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
    build(spark, tmp_path / "w", tmp_path / "log", "sessions.layout=impression")
    bare = {"segment": None, "bucket": None, "swapped": None}
    plain = [row if n % 3 else row | bare for n, row in enumerate(pages)]
    rows = rows_of(tmp_path / "w", "groups")
    assert oracle.expand_groups(rows) == oracle.click_histograms(plain, 50)


def test_a_position_that_is_no_whole_number_is_set_aside(spark, tmp_path):
    rows = impressions_of([page(1, random.Random(17)) | {"doc_ids": ["a", "b"],
                                                         "clicks": [True, False]}])  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=impression_schema)
    at = table.schema.get_field_index("position")
    (tmp_path / "log").mkdir()
    table = table.set_column(at, "position", pa.array([1.0, 2.7]))
    pq.write_table(table, tmp_path / "log" / "part-0.parquet")
    build(spark, tmp_path / "w", tmp_path / "log", "sessions.layout=impression")
    (row,) = rows_of(tmp_path / "w", "quarantine")
    assert (row["reason"], json.loads(row["raw"])["position"]) == ("bad_type", 2.7)


def test_broken_impressions_are_quarantined_session_by_session(spark, tmp_path):
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
    outcome = build(spark, tmp_path / "w", path, "sessions.layout=impression")
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


def test_a_log_without_date_folders_is_filtered_by_time(spark, tmp_path):
    rng = random.Random(10)
    next_day = DATE + dt.timedelta(days=1)
    today, tomorrow = ([page(n, rng, d) for n in range(100)] for d in (DATE, next_day))
    tomorrow = [p | {"session_id": f"t{p['session_id']}"} for p in tomorrow]
    path = write_parquet(tmp_path / "log", today + tomorrow)
    build(spark, tmp_path / "w", path)
    build(spark, tmp_path / "w", path, date=next_day)
    for date, pages in ((DATE, today), (next_day, tomorrow)):
        rows = rows_of(tmp_path / "w", "groups", date)
        assert oracle.expand_groups(rows) == oracle.click_histograms(pages, 50)


@pytest.mark.parametrize("form", ["parquet", "json", "csv"])
def test_folders_may_hold_columns(spark, tmp_path, form):
    """As Spark's partitionBy writes them: out of the files, and null by a name of its own."""
    rng = random.Random(19)
    log = [page(n, rng) for n in range(40)]
    write = {"parquet": write_parquet, "json": write_json, "csv": write_csv}[form]
    for segment, name in ((None, "__HIVE_DEFAULT_PARTITION__"), ("mobile", "mobile")):
        rows = [{n: v for n, v in row.items() if n != "segment"}
                for row in log if row["segment"] == segment]  # fmt: skip
        path = write(tmp_path / "log" / f"dt={DATE}" / f"segment={name}", rows)
        for file in path.glob("*.parquet"):
            pq.write_table(pq.read_table(file, partitioning=None).drop_columns("segment"), file)
    build(spark, tmp_path / "w", tmp_path / "log", f"sessions.format={form}")
    rows = rows_of(tmp_path / "w", "groups")
    assert oracle.expand_groups(rows) == oracle.click_histograms(log, 50)


def test_a_window_of_days_equals_aggregating_them_at_once(spark, tmp_path):
    rng = random.Random(11)
    days = [DATE + dt.timedelta(days=n) for n in range(3)]
    pages = {d: [page(1000 * n + i, rng, d) for i in range(400)] for n, d in enumerate(days)}
    files = []
    for n, (date, rows) in enumerate(pages.items()):
        path = write_parquet(tmp_path / "log" / f"dt={date}", rows).parent
        # The number of files may change from one day to the next.
        build(spark, tmp_path / "w", path, f"groups.partitions={n + 2}", date=date)
        files += Warehouse(str(tmp_path / "w")).files("groups", f"dt={date}")
    window = merge_window(spark, files, url=str(tmp_path / "w"), partitions=2)
    everything = [row for rows in pages.values() for row in rows]
    rows = [row.asDict(recursive=True) for row in window.collect()]
    assert oracle.expand_groups(rows) == oracle.click_histograms(everything, 50)
    assert isinstance(window.schema["patterns"].dataType, T.ArrayType)


def test_an_unchanged_date_is_skipped_and_a_changed_one_is_not(spark, tmp_path):
    rng = random.Random(12)
    path = write_parquet(tmp_path / "log", [page(n, rng) for n in range(50)])
    assert not build(spark, tmp_path / "w", path).skipped
    again = build(None, tmp_path / "w", path)  # not even a Spark session is needed
    assert again.skipped
    assert not build(spark, tmp_path / "w", path, "groups.max_position=2").skipped
    write_parquet(tmp_path / "log", [page(n, rng) for n in range(60)])
    assert build(spark, tmp_path / "w", path, "groups.max_position=2").manifest.counts["read"] == 60
    forced = build(spark, tmp_path / "w", path, "groups.max_position=2", force=True)
    assert not forced.skipped


def test_too_many_broken_rows_stop_the_run_and_name_the_three_commonest_reasons(spark, tmp_path):
    rng = random.Random(13)
    rows = [page(n, rng) for n in range(100)]
    for n, reason in enumerate(["empty_page"] * 9 + ["null_click"] * 7 + ["bad_bucket"] * 5
                               + ["null_query_id"] * 2):  # fmt: skip
        rows[n] = rows[n] | BREAK[reason]
    path = write_parquet(tmp_path / "log", rows)
    with pytest.raises(DataRefused) as error:
        build(spark, tmp_path / "w", path, "sessions.max_bad_share=0.2")
    message = str(error.value)
    assert "23 of 100 rows (23.0%)" in message
    names = ["empty_page 9", "null_click 7", "bad_bucket 5"]
    assert [message.index(name) for name in names] == sorted(message.index(n) for n in names)
    assert "null_query_id" not in message
    assert Warehouse(str(tmp_path / "w")).current("groups", f"dt={DATE}") is None
    assert len(rows_of(tmp_path / "w", "quarantine")) == 23


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_log_without_a_row_is_an_empty_table(spark, tmp_path, form):
    write = write_parquet if form == "parquet" else write_json
    outcome = build(spark, tmp_path / "w", write(tmp_path / "log", []), f"sessions.format={form}")
    assert describe(outcome) == "0 pages -> 0 groups, 0 patterns"
    assert rows_of(tmp_path / "w", "groups") == []


def test_a_log_that_cannot_be_read_is_one_clear_line(spark, tmp_path):
    with pytest.raises(UserError, match="no log files at"):
        build(spark, tmp_path / "w", tmp_path / "absent")
    write_parquet(tmp_path / "log" / f"dt={DATE}", [page(1, random.Random(0))])
    with pytest.raises(UserError, match="no folder dt=2026-02-02"):
        build(spark, tmp_path / "w", tmp_path / "log", date=dt.date(2026, 2, 2))
    path = write_impressions(tmp_path / "impressions", [])
    with pytest.raises(UserError, match=r"no column doc_ids, clicks; .*layout=impression"):
        build(spark, tmp_path / "w", path)
    (path / "log.parquet").write_text("session_id,query_id\n")
    with pytest.raises(UserError, match=r"log.parquet is not a Parquet file: .*sessions.format"):
        build(spark, tmp_path / "w", path)
    (tmp_path / "log" / f"dt={DATE}" / "part-9.parquet").touch()
    with pytest.raises(PythonException) as error:
        build(spark, tmp_path / "w", tmp_path / "log")
    assert "part-9.parquet is not a Parquet file" in str(user_error_of_a_task(error.value))


def test_a_file_of_text_may_have_any_name(spark, tmp_path):
    rng = random.Random(18)
    path = write_json(tmp_path / "log {old} [1]", [page(n, rng) for n in range(5)])
    (path / "log.json").rename(path / "what? [a-b].json")
    found = LogFiles(DATE, Storage(str(path)), Storage(str(path)).files(), False)
    assert read_typed_rows(spark, found, "json", page_schema).count() == 5


@pytest.mark.parametrize(
    ("folder", "expected"),
    [("/data/log", "file:///data/log/a/b.json"),
     ("hdfs://name:8020/log", "hdfs://name:8020/log/a/b.json"),
     ("abfs://box@account.host/log?x=1", "abfs://box@account.host/log/a/b.json"),
     ("s3a://bucket", "s3a://bucket/a/b.json")],
)  # fmt: skip
def test_spark_finds_a_file_where_the_log_is(folder, expected):
    assert spark_url(folder, "a/b.json") == expected


@pytest.mark.parametrize(
    "pattern", ["dt={date}", "*/part-*.parquet", "dt=2026-01-01/part-0.parquet"]
)
def test_a_path_may_name_the_date_a_pattern_or_one_file(spark, tmp_path, pattern):
    rng = random.Random(14)
    write_parquet(tmp_path / f"dt={DATE}", [page(n, rng) for n in range(30)], files=1)
    outcome = build(spark, tmp_path / "w", tmp_path / pattern)
    assert outcome.manifest.counts["pages"] == 30
