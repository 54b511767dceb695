"""Tables are published in one step, and failures leave the old version."""

from __future__ import annotations

import datetime as dt
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pyarrow as pa
import pytest

from ulr.errors import UserError
from ulr.warehouse import lock
from ulr.warehouse.storage import Storage
from ulr.warehouse.table_files import TableFiles
from ulr.warehouse.tables import Warehouse

DAY = "dt=2026-01-01"


def publish(warehouse: Warehouse, fingerprint: str, values: list[int], partition: str = DAY):
    with warehouse.writing("groups", partition, fingerprint) as transaction:
        transaction.write_table(pa.table({"x": values}))
        return transaction.publish({"rows": len(values)})


def content(warehouse: Warehouse, partition: str = DAY) -> list[int]:
    (path,) = warehouse.files("groups", partition)
    return pa.parquet.read_table(path)["x"].to_pylist()


def folders(warehouse: Warehouse) -> list[str]:
    """Return the fingerprints of the stored versions; a folder is FINGERPRINT-RUN."""
    return sorted(name.rpartition("-")[0] for name in warehouse.storage.folders(f"groups/{DAY}"))


def test_a_published_table_is_read_back(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "abc", [1, 2])
    assert content(warehouse) == [1, 2]
    manifest = warehouse.current("groups", DAY)
    assert (manifest.fingerprint, manifest.counts) == ("abc", {"rows": 2})


def test_publishing_replaces_one_date_only(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])
    publish(warehouse, "b", [7], "dt=2026-01-02")
    publish(warehouse, "c", [2])
    assert content(warehouse) == [2]
    assert content(warehouse, "dt=2026-01-02") == [7]
    assert warehouse.partitions("groups") == [DAY, "dt=2026-01-02"]


def test_a_replaced_version_stays_readable_for_keep_days(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])
    (old,) = warehouse.files("groups", DAY)
    for value in (2, 3):
        publish(warehouse, "b", [value])
        assert pa.parquet.read_table(old)["x"].to_pylist() == [1]
    eager = Warehouse(str(tmp_path), keep_days=0)
    publish(eager, "c", [4])
    publish(eager, "d", [5])
    assert folders(eager) == ["d"]


def test_a_version_expires_by_the_time_it_was_replaced_not_written(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])
    publish(warehouse, "b", [2])
    path = tmp_path / "groups" / DAY / "manifest.json"
    manifest = json.loads(path.read_text())
    assert [entry["folder"][:1] for entry in manifest["replaced"]] == ["a"]
    day_before = dt.datetime.now(dt.timezone.utc) - dt.timedelta(days=1, seconds=5)
    manifest["replaced"][0]["at"] = day_before.isoformat()
    path.write_text(json.dumps(manifest))
    publish(warehouse, "c", [3])
    assert folders(warehouse) == ["b", "c"]


def test_a_folder_that_ulr_did_not_create_is_never_removed(tmp_path):
    warehouse = Warehouse(str(tmp_path), keep_days=0)
    (tmp_path / "groups" / DAY / "notes").mkdir(parents=True)
    (tmp_path / "groups" / DAY / "notes" / "part-00000.parquet").touch()
    for value in range(3):
        publish(warehouse, "a", [value])
    assert "notes" in warehouse.storage.folders(f"groups/{DAY}")


def test_the_same_content_may_be_published_again(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])
    publish(warehouse, "a", [1])
    assert content(warehouse) == [1]
    assert folders(warehouse) == ["a", "a"]


def test_an_exception_before_publication_leaves_the_old_table_and_no_files(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])

    def fail() -> None:
        with warehouse.writing("groups", DAY, "b") as transaction:
            transaction.write_table(pa.table({"x": [2]}))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert content(warehouse) == [1]
    publish(warehouse, "c", [3])
    assert folders(warehouse) == ["a", "c"]


WRITER = """
    import sys
    import pyarrow as pa
    from ulr.warehouse.tables import Warehouse
    with Warehouse(sys.argv[1]).writing("groups", "dt=2026-01-01", "killed") as transaction:
        transaction.write_table(pa.table({"x": [9]}))
        print("written", flush=True)
        sys.stdin.read()  # until it is killed
"""


@pytest.fixture
def writer(tmp_path):
    """Yield another process that has written its files and has not published them yet."""
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "written\n"
    yield process
    process.kill()
    process.wait()


@pytest.mark.kill
def test_a_writer_killed_before_publication_leaves_the_old_table(tmp_path, request):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])
    process = request.getfixturevalue("writer")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert content(warehouse) == [1]
    assert "killed" in folders(warehouse)
    publish(warehouse, "b", [2])  # the lock is free, and the files of its owner are removed
    assert content(warehouse) == [2]
    assert folders(warehouse) == ["a", "b"]


def test_a_second_writer_is_refused_with_the_name_of_the_first(tmp_path, writer):
    warehouse = Warehouse(str(tmp_path))
    with pytest.raises(UserError, match=f"being written by process {writer.pid}"):
        publish(warehouse, "b", [2])
    publish(warehouse, "c", [3], "dt=2026-01-02")  # another date is not locked


def test_a_missing_date_is_reported_with_the_dates_that_exist(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    with pytest.raises(UserError, match="has no groups dt=2026-01-01; run `ulr groups`"):
        warehouse.files("groups", DAY)
    publish(warehouse, "a", [1])
    with pytest.raises(UserError, match="there is dt=2026-01-01 to dt=2026-01-01"):
        warehouse.files("groups", "dt=2026-03-01")


def test_a_writer_paused_past_its_lease_publishes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "SETTLE_S", 0.0)
    monkeypatch.setattr(lock, "_flock", lock.lease)  # as on an object store
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])
    with warehouse.writing("groups", DAY, "b") as transaction:
        transaction.write_table(pa.table({"x": [2]}))
        other = {"token": "other", "until": time.time() + 3600}
        warehouse.storage.write_json(other, f"groups/{DAY}", ".lock")
        TableFiles(warehouse.storage.child("groups", DAY, "other-1")).mark({})
        with pytest.raises(UserError, match="another has begun to write"):
            transaction.publish({})
    assert content(warehouse) == [1]
    assert "other" in folders(warehouse)  # the files of the new owner stay


def test_files_that_another_run_removed_are_not_published_as_an_empty_table(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])
    with warehouse.writing("groups", DAY, "b") as transaction:
        files = Storage(transaction.url)
        files.write_table(pa.table({"x": [2]}), "part-00000.parquet")
        files.delete()
        files.write_table(pa.table({"x": [3]}), "part-00001.parquet")
        with pytest.raises(UserError, match="another run removed these files"):
            transaction.publish({})
    assert content(warehouse) == [1]
    with warehouse.writing("groups", DAY, "c") as transaction:  # a table without files is valid
        transaction.publish({"rows": 0})
    assert warehouse.files("groups", DAY) == []
    assert [path.name for path in tmp_path.rglob("_*")] == ["_ulr.json"] * 2


def test_a_missing_table_is_reported_with_the_command_that_builds_it(tmp_path):
    with pytest.raises(UserError, match="has no joint_propensities; run `ulr propensities` first"):
        Warehouse(str(tmp_path)).files("joint_propensities")
