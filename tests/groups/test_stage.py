"""The stage that publishes groups and quarantine from pages."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support import oracle
from tests.support.logs import (
    BREAK,
    DATE,
    broken_log,
    build,
    page,
    rows_of,
    settings,
    write_parquet,
)
from ulr.clicklog import parquet
from ulr.clicklog.files import LogFiles
from ulr.clicklog.quarantine import reasons_in
from ulr.clicklog.sources import FileLog
from ulr.errors import InvalidData
from ulr.groups.stage import partitions_of
from ulr.warehouse.schema import groups_schema, page_schema, quarantine_schema
from ulr.warehouse.storage import Storage, StoredFile
from ulr.warehouse.tables import Warehouse


def test_ten_thousand_rows_with_every_kind_of_broken_row_are_counted_exactly(engine, tmp_path):
    log, reasons, good = broken_log(10_000, seed=1)
    outcome = build(engine, tmp_path / "w", write_parquet(tmp_path / "log", log))
    counts = outcome.manifest.counts
    assert reasons_in(counts) == reasons
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


def test_tables_have_their_schemas_and_a_query_is_in_one_file(engine, tmp_path):
    log, _, _ = broken_log(2000, seed=2)
    build(engine, tmp_path / "w", write_parquet(tmp_path / "log", log))
    warehouse = Warehouse(str(tmp_path / "w"))
    files_of: dict[str, set] = {}
    for path in warehouse.files("groups", f"dt={DATE}"):
        table = pq.read_table(path)
        assert table.schema.equals(groups_schema)
        for query in table["query_id"].to_pylist():
            files_of.setdefault(query, set()).add(path)
    assert all(len(files) == 1 for files in files_of.values())
    (first, *_) = warehouse.files("quarantine", f"dt={DATE}")
    assert pq.read_schema(first).equals(quarantine_schema)


def test_groups_do_not_depend_on_how_the_log_is_split_into_files(engine, tmp_path):
    log, _, _ = broken_log(3000, seed=3)
    build(engine, tmp_path / "a", write_parquet(tmp_path / "one", log, files=1))
    build(engine, tmp_path / "b", write_parquet(tmp_path / "five", log[::-1], files=5))
    files = [Warehouse(str(tmp_path / x)).files("groups", f"dt={DATE}") for x in "ab"]
    contents = [[Path(f).read_bytes() for f in paths] for paths in files]
    assert contents[0] == contents[1]


def test_quarantine_does_not_depend_on_how_tasks_split_the_log(engine, tmp_path, monkeypatch):
    path = write_parquet(tmp_path / "log", broken_log(3000, seed=20)[0])
    build(engine, tmp_path / "a", path)
    monkeypatch.setattr(parquet, "MIN_SPLIT_BYTES", 1)
    build(engine, tmp_path / "b", path)
    files = [Warehouse(str(tmp_path / x)).files("quarantine", f"dt={DATE}") for x in "ab"]
    contents = [[Path(f).read_bytes() for f in paths] for paths in files]
    assert contents[0] == contents[1]


def test_the_result_is_the_same_above_the_limit_of_repeated_ids(engine, tmp_path):
    log, _, _ = broken_log(1500, seed=4)
    path = write_parquet(tmp_path / "log", log)
    build(engine, tmp_path / "few", path)
    build(engine, tmp_path / "many", path, "log.max_repeated_ids=0")
    assert rows_of(tmp_path / "few", "groups") == rows_of(tmp_path / "many", "groups")
    manifests = [Warehouse(str(tmp_path / x)).current("groups", f"dt={DATE}")
                 for x in ("few", "many")]  # fmt: skip
    assert manifests[0].counts == manifests[1].counts


def test_long_lists_are_truncated_and_counted(engine, tmp_path):
    rng = random.Random(5)
    log = [page(n, rng) for n in range(300)]
    path = write_parquet(tmp_path / "log", log)
    outcome = build(engine, tmp_path / "w", path, "groups.max_position=3")
    assert outcome.manifest.counts["cut"] == sum(len(p["doc_ids"]) > 3 for p in log)
    assert outcome.manifest.counts["longest"] == 3
    expected = oracle.click_histograms(log, 3)
    assert oracle.expand_groups(rows_of(tmp_path / "w", "groups")) == expected


def test_the_sum_of_daily_groups_equals_the_groups_of_all_days(engine, tmp_path):
    rng = random.Random(11)
    days = [DATE + dt.timedelta(days=n) for n in range(3)]
    pages = {d: [page(1000 * n + i, rng, d) for i in range(400)] for n, d in enumerate(days)}
    for n, (date, rows) in enumerate(pages.items()):
        path = write_parquet(tmp_path / "log" / f"dt={date}", rows).parent
        # The number of files may change from one day to the next.
        build(engine, tmp_path / "w", path, f"groups.partitions={n + 2}", date=date)
    total: dict[tuple, Counter] = {}
    for date in days:
        for key, counts in oracle.expand_groups(rows_of(tmp_path / "w", "groups", date)).items():
            total[key] = total.get(key, Counter()) + counts
    everything = [row for rows in pages.values() for row in rows]
    assert total == oracle.click_histograms(everything, 50)


def test_an_unchanged_date_is_skipped_and_a_changed_one_is_not(engine, tmp_path):
    rng = random.Random(12)
    path = write_parquet(tmp_path / "log", [page(n, rng) for n in range(50)])
    assert not build(engine, tmp_path / "w", path).skipped
    again = build(None, tmp_path / "w", path)  # no Spark session is started
    assert again.skipped
    assert not build(engine, tmp_path / "w", path, "groups.max_position=2").skipped
    write_parquet(tmp_path / "log", [page(n, rng) for n in range(60)])
    assert (
        build(engine, tmp_path / "w", path, "groups.max_position=2").manifest.counts["read"] == 60
    )
    forced = build(engine, tmp_path / "w", path, "groups.max_position=2", force=True)
    assert not forced.skipped


def test_too_many_broken_rows_stop_the_run_with_the_three_most_frequent_reasons(engine, tmp_path):
    rng = random.Random(13)
    rows = [page(n, rng) for n in range(100)]
    for n, reason in enumerate(["empty_page"] * 9 + ["null_click"] * 7 + ["bad_bucket"] * 5
                               + ["null_query_id"] * 2):  # fmt: skip
        rows[n] = rows[n] | BREAK[reason]
    path = write_parquet(tmp_path / "log", rows)
    with pytest.raises(InvalidData) as error:
        build(engine, tmp_path / "w", path, "log.max_bad_fraction=0.2")
    message = str(error.value)
    assert "23 of 100 rows (23.0%)" in message
    names = ["empty_page 9", "null_click 7", "bad_bucket 5"]
    assert [message.index(name) for name in names] == sorted(message.index(n) for n in names)
    assert "null_query_id" not in message
    assert Warehouse(str(tmp_path / "w")).current("groups", f"dt={DATE}") is None
    assert len(rows_of(tmp_path / "w", "quarantine")) == 23


@pytest.mark.parametrize(
    ("form", "size", "expected"),
    [("parquet", 1000, 1), ("parquet", 64 << 20, 8), ("parquet", 1 << 30, 32),
     ("json", 8 << 30, 32), ("csv", 8 << 30, 32)],
)  # fmt: skip
def test_the_number_of_files_follows_the_bytes_of_the_log_unless_it_is_set(form, size, expected):
    halves = [StoredFile(f"part-{n}", size // 2, 0) for n in range(2)]
    files = LogFiles(DATE, Storage("log"), halves, False)
    chosen = settings("log", f"log.format={form}", "groups.partitions=null")
    assert partitions_of(FileLog(files, chosen.log), chosen.groups) == expected
    chosen = settings("log", "groups.partitions=5")
    assert partitions_of(FileLog(files, chosen.log), chosen.groups) == 5


def test_repeated_sessions_give_the_groups_of_the_log_without_them(engine, tmp_path):
    log, _, good = broken_log(2000, seed=21)
    repeated = build(engine, tmp_path / "a", write_parquet(tmp_path / "all", log))
    once = build(engine, tmp_path / "b", write_parquet(tmp_path / "once", good))
    assert repeated.manifest.counts["duplicates"] > 0
    contents = []
    for root in "ab":
        files = Warehouse(str(tmp_path / root)).files("groups", f"dt={DATE}")
        contents.append([Path(f).read_bytes() for f in files])
    assert contents[0] == contents[1]
    for name in ("pages", "groups", "patterns", "queries", "cut", "longest", "groups_bytes"):
        assert repeated.manifest.counts[name] == once.manifest.counts[name]
