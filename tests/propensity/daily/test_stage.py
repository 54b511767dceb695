"""Stored tallies: which dates are counted, and that their sum is the count of all pages."""

from __future__ import annotations

import datetime as dt
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.session_groups import group
from ulr.config.load import load_settings
from ulr.errors import LockTaken
from ulr.propensity.daily import stage
from ulr.propensity.daily import tasks as tally_tasks
from ulr.propensity.daily.stage import build_tallies
from ulr.propensity.daily.tasks import power_of_two
from ulr.propensity.stage import build_propensities
from ulr.warehouse.overlay import OverlayWarehouse
from ulr.warehouse.schema import groups_schema, swap_counts_schema, swap_documents_schema
from ulr.warehouse.tables import Warehouse

DATES = [dt.date(2026, 1, day) for day in (1, 2, 3)]
BLOCKS = 4


def random_rows(seed, count=120):
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        bucket = ("1:2", "1:3", None)[i % 3]
        clicks = (rng.random((int(rng.integers(1, 9)), 3)) < 0.5).astype(int).tolist()
        swapped = None if bucket is None else bool(rng.integers(2))
        row = group(clicks, query=f"q{i % 5}", segment="a", bucket=bucket, swapped=swapped)
        row["doc_ids"] = [f"d{d}" for d in rng.permutation(4)[:3]]
        row["ranking"] = i
        rows.append(row)
    return rows


def publish(house, date, rows, fingerprint="x", parts=3):
    with house.writing("groups", f"dt={date}", fingerprint) as draft:
        for part in range(parts):
            table = pa.Table.from_pylist(rows[part::parts], schema=groups_schema)
            pq.write_table(table, Path(draft.url) / f"part-{part:05d}.parquet")
        draft.publish({"pages": len(rows)})


@pytest.fixture
def house(tmp_path):
    house = Warehouse(str(tmp_path / "house"))
    for date in DATES:
        publish(house, date, random_rows(date.day))
    return house


def results(engine, tallies):
    return tallies.swap_counts(10), tallies.moments(engine, blocks=BLOCKS)


NO_ENGINE = None  # every date has its tallies


def test_days_stored_and_summed_equal_one_count_of_all_pages(engine, house, tmp_path):
    for end in range(1, 4):  # night by night
        tallies = build_tallies(engine, house, DATES[:end])
    once = Warehouse(str(tmp_path / "once"))
    publish(once, DATES[0], [row for date in DATES for row in random_rows(date.day)])
    whole = build_tallies(engine, once, DATES[:1])
    assert results(engine, tallies) == results(engine, whole)
    assert results(engine, tallies)[1].num_rows > 2 * BLOCKS - 3


def test_the_window_is_summed_by_workers_with_equal_results(engine, pool, house):
    tallies = build_tallies(engine, house, DATES)
    assert results(pool, tallies) == results(engine, tallies)


def test_dates_are_tallied_by_workers_with_equal_bytes(engine, pool, house):
    def contents():
        tables = ("swap_counts", "swap_documents")
        files = [f for table in tables for date in DATES for f in house.files(table, f"dt={date}")]
        return [Path(file).read_bytes() for file in files]

    build_tallies(engine, house, DATES)
    in_process = contents()
    for table in ("swap_counts", "swap_documents"):
        house.storage.delete(table)
    build_tallies(pool, house, DATES)
    assert contents() == in_process


def test_the_division_into_files_does_not_change_the_results(engine, house, monkeypatch):
    expected = results(engine, build_tallies(engine, house, DATES))
    monkeypatch.setattr(tally_tasks, "BYTES_PER_PART", 1000)
    for date in DATES[:2]:
        house.storage.delete("swap_counts", f"dt={date}")
    tallies = build_tallies(engine, house, DATES)
    assert [manifest.counts["parts"] > 1 for manifest in tallies.documents] == [True, True, False]
    assert len(house.files("swap_documents", f"dt={DATES[0]}")) > 2
    assert results(engine, tallies) == expected


def test_only_dates_without_tallies_are_counted(engine, house):
    build_tallies(engine, house, DATES[:2])
    before = [house.require("swap_counts", f"dt={date}") for date in DATES[:2]]
    build_tallies(engine, house, DATES)
    assert [house.require("swap_counts", f"dt={date}") for date in DATES[:2]] == before
    build_tallies(NO_ENGINE, house, DATES)
    build_tallies(NO_ENGINE, house, DATES[1:])


@pytest.mark.parametrize("fingerprint", ["changed", "x"])
def test_a_date_published_again_is_counted_again(engine, house, fingerprint):
    """Also by force, when the fingerprint is the old one."""
    build_tallies(engine, house, DATES)
    publish(house, DATES[1], random_rows(99), fingerprint)
    tallies = build_tallies(engine, house, DATES)
    fresh = Warehouse(str(Path(house.storage.url).parent / "fresh"))
    for date, seed in zip(DATES, (1, 99, 3), strict=True):
        publish(fresh, date, random_rows(seed))
    expected = build_tallies(engine, fresh, DATES)
    assert results(engine, tallies) == results(engine, expected)


@pytest.mark.parametrize("table", ["swap_counts", "swap_documents"])
def test_a_missing_tally_is_counted(engine, house, table):
    expected = results(engine, build_tallies(engine, house, DATES))
    house.storage.delete(table, f"dt={DATES[1]}")
    assert results(engine, build_tallies(engine, house, DATES)) == expected


def test_equal_groups_give_equal_bytes_and_the_declared_schemas(engine, house):
    def contents():
        return [
            Path(path).read_bytes()
            for table in ("swap_counts", "swap_documents")
            for path in house.files(table, f"dt={DATES[0]}")
        ]

    build_tallies(engine, house, DATES[:1])
    before = contents()
    publish(house, DATES[0], random_rows(DATES[0].day)[::-1], "reversed", parts=5)
    build_tallies(engine, house, DATES[:1])
    assert contents() == before
    assert house.read("swap_counts", f"dt={DATES[0]}").schema.equals(swap_counts_schema)
    assert house.read("swap_documents", f"dt={DATES[0]}").schema.equals(swap_documents_schema)


def test_a_rerun_shares_the_tallies_of_its_base_and_adds_missing_ones(engine, house):
    overlay = OverlayWarehouse(OverlayWarehouse(house, "reruns", "one"), "variants", "two")
    build_tallies(engine, overlay, DATES[:2])
    build_tallies(NO_ENGINE, house, DATES[:2])
    assert house.partitions("swap_counts") == [f"dt={date}" for date in DATES[:2]]
    assert not overlay.storage.exists("swap_counts")


def test_the_depth_of_the_settings_does_not_count_a_date_again(engine, house, monkeypatch):
    settings = load_settings(None, ["propensities.min_clicks=5"]).propensities
    build_propensities(engine, house, DATES, settings)
    shallow = settings.model_copy(update={"max_position": 2})
    monkeypatch.setattr(stage, "tally_days", lambda *_: pytest.fail("every date has its tallies"))
    outcome = build_propensities(engine, house, DATES, shallow)
    assert not outcome.skipped
    assert outcome.results[0].curve.positions == 2


def test_a_date_without_pages_has_empty_tallies(engine, house):
    empty = dt.date(2026, 1, 9)
    publish(house, empty, [], parts=0)
    tallies = build_tallies(engine, house, [empty])
    assert tallies.swap_counts(10).num_rows == 0
    assert tallies.moments(engine, blocks=BLOCKS).num_rows == 0


def test_a_date_that_another_run_is_counting_is_awaited(engine, house, monkeypatch):
    monkeypatch.setattr(stage, "_RETRY_S", 0.05)
    holding, release = threading.Event(), threading.Event()

    def other_run():
        with house.writing("swap_counts", f"dt={DATES[0]}", "other"):
            holding.set()
            release.wait(30)

    thread = threading.Thread(target=other_run)
    thread.start()
    assert holding.wait(30)
    with monkeypatch.context() as patch:
        patch.setattr(stage, "_RETRIES", 1)
        with pytest.raises(LockTaken, match="is being written by process"):
            build_tallies(engine, house, DATES)
    threading.Timer(0.3, release.set).start()
    build_tallies(engine, house, DATES)
    thread.join()
    build_tallies(NO_ENGINE, house, DATES)


def test_powers_of_two():
    assert [power_of_two(x) for x in (0, 0.3, 1, 1.1, 2, 3, 8, 8.5)] == [1, 1, 1, 2, 2, 4, 8, 16]
