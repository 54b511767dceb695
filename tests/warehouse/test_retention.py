"""Old dates are removed, and nothing else."""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pytest

from ulr.cli.main import main
from ulr.config.load import default_settings
from ulr.errors import UserError
from ulr.warehouse.retention import check_retention, find_expired, newest_date, remove_expired
from ulr.warehouse.tables import Warehouse

TODAY = dt.date(2026, 3, 31)
KEPT = {"retention_days": 60, "quarantine_days": 30}
FLAGS = [f"warehouse.{name}={days}" for name, days in KEPT.items()]


def settings(**changes):
    return default_settings().warehouse.model_copy(update=KEPT | changes)


def days_ago(days: int) -> dt.date:
    return TODAY - dt.timedelta(days=days)


def publish(warehouse: Warehouse, table: str, partition: str, value: int = 0) -> None:
    with warehouse.writing(table, partition, "f") as transaction:
        transaction.write_table(pa.table({"x": [value]}))
        transaction.publish({"rows": 1})


@pytest.fixture
def warehouse(tmp_path):
    """Return a warehouse with dates at both sides of each limit, and things without a date."""
    warehouse = Warehouse(str(tmp_path))
    for days in (0, 29, 30, 59, 60, 61):
        for table in ("groups", "quarantine", "swap_counts", "swap_documents"):
            publish(warehouse, table, f"dt={days_ago(days)}")
        for name in (f"nights/{days_ago(days)}.json", f"reports/{days_ago(days)}.html"):
            warehouse.storage.write_text("{}", name)
    publish(warehouse, "models", "method=joint")
    publish(warehouse, "groups", "dt=unknown")
    warehouse.storage.write_text("{}", "reports/compare-2020-01-01..2020-01-02.json")
    return warehouse


def remaining(warehouse: Warehouse, table: str) -> list[int]:
    names = warehouse.partitions(table)
    dates = [dt.date.fromisoformat(n[3:]) for n in names if n != "dt=unknown"]
    return sorted((TODAY - date).days for date in dates)


def test_dates_past_their_retention_are_removed_and_quarantine_earlier(warehouse):
    assert newest_date(warehouse) == TODAY
    expired = find_expired(warehouse, settings(), TODAY)
    assert remaining(warehouse, "groups") == [0, 29, 30, 59, 60, 61]  # nothing is removed yet
    remove_expired(warehouse, expired)
    for table in ("groups", "swap_counts", "swap_documents"):
        assert remaining(warehouse, table) == [0, 29, 30, 59]
    assert remaining(warehouse, "quarantine") == [0, 29]
    nights = [file.path for file in warehouse.storage.files("nights")]
    assert nights == sorted(f"nights/{days_ago(days)}.json" for days in (0, 29, 30, 59))
    assert warehouse.partitions("models") == ["method=joint"]
    assert "dt=unknown" in warehouse.partitions("groups")
    assert warehouse.storage.exists("reports/compare-2020-01-01..2020-01-02.json")
    assert find_expired(warehouse, settings(), TODAY) == []


def test_expired_nights_leave_the_page_over_all_nights(warehouse, tmp_path, capsys):
    where = [flag for pair in [f"warehouse.path={tmp_path}", *FLAGS] for flag in ("--set", pair)]
    assert main(["tables", "--expire", *where]) == 0
    page = (tmp_path / "reports" / "index.html").read_text()
    dates = {days: str(days_ago(days)) for days in (0, 29, 30, 59, 60, 61)}
    assert {days for days, date in dates.items() if f">{date}<" in page} == {0, 29, 30, 59}


def test_no_limit_keeps_everything(warehouse):
    kept = settings(retention_days=None, quarantine_days=None)
    assert find_expired(warehouse, kept, TODAY) == []


def test_a_partition_whose_removal_was_interrupted_is_found_again(warehouse, tmp_path):
    where = tmp_path / "groups" / f"dt={days_ago(61)}"
    (where / "manifest.json").unlink()
    remove_expired(warehouse, find_expired(warehouse, settings(), TODAY))
    assert not where.exists()


def test_retention_shorter_than_the_window_is_refused():
    with pytest.raises(UserError, match=r"retention_days = 60 is shorter than .*window_days = 90"):
        check_retention(settings(), 90)
    check_retention(settings(), 60)


def test_the_command_lists_tables_and_removes_only_without_dry_run(warehouse, tmp_path, capsys):
    flags = [f for change in (*FLAGS, f"warehouse.path={tmp_path}") for f in ("--set", change)]
    assert main(["tables", *flags]) == 0
    out = capsys.readouterr().out
    assert "groups" in out
    assert f"dt={TODAY}" in out
    for arguments, verb in ([["--dry-run"], "would remove"], [[], "removed"]):
        before = remaining(warehouse, "groups")
        assert main(["tables", "--expire", *arguments, *flags]) == 0
        out = capsys.readouterr().out
        assert f"{verb} groups {days_ago(61)} to {days_ago(60)} (2 dates)" in out
        assert (remaining(warehouse, "groups") == before) == bool(arguments)
    assert main(["tables", "--expire", "--json", *flags]) == 0
    assert json.loads(capsys.readouterr().out)["expired"] == []
    assert main(["tables", "--dry-run", *flags]) == 2


def test_expiry_also_removes_versions_that_were_replaced_long_ago(warehouse, tmp_path, capsys):
    publish(warehouse, "models", "method=joint", 1)
    assert len(warehouse.storage.folders("models/method=joint")) == 2
    change = f"warehouse.path={tmp_path}"
    for days, folders in ((1, 2), (0, 1)):
        keep = f"warehouse.keep_days={days}"
        assert main(["tables", "--expire", "--set", change, "--set", keep]) == 0
        assert len(warehouse.storage.folders("models/method=joint")) == folders
    assert warehouse.read("models", "method=joint")["x"].to_pylist() == [1]
