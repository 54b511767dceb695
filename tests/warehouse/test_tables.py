from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pyarrow as pa
import pytest
from pyarrow._fs import _MockFileSystem

from ulr.errors import UserError
from ulr.warehouse import lock
from ulr.warehouse.stage import fingerprint
from ulr.warehouse.storage import Storage, open_filesystem
from ulr.warehouse.tables import Warehouse

DAY = "dt=2026-01-01"


def publish(warehouse: Warehouse, identity: str, values: list[int], partition: str = DAY):
    with warehouse.writing("groups", partition, identity) as draft:
        Storage(draft.url).write_table(pa.table({"x": values}), "part-00000.parquet")
        return draft.publish({"rows": len(values)})


def content(warehouse: Warehouse, partition: str = DAY) -> list[int]:
    (path,) = warehouse.files("groups", partition)
    return pa.parquet.read_table(path)["x"].to_pylist()


def folders(warehouse: Warehouse) -> list[str]:
    return warehouse.storage.folders(f"groups/{DAY}")


def test_what_is_published_is_what_is_read(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "abc", [1, 2])
    assert content(warehouse) == [1, 2]
    manifest = warehouse.current("groups", DAY)
    assert (manifest.fingerprint, manifest.counts) == ("abc", {"rows": 2})


def test_a_date_is_replaced_and_no_other(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])
    publish(warehouse, "b", [7], "dt=2026-01-02")
    publish(warehouse, "c", [2])
    assert content(warehouse) == [2]
    assert content(warehouse, "dt=2026-01-02") == [7]
    assert warehouse.partitions("groups") == [DAY, "dt=2026-01-02"]


def test_the_replaced_table_stays_readable_for_one_publication(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])
    (old,) = warehouse.files("groups", DAY)
    publish(warehouse, "b", [2])
    assert pa.parquet.read_table(old)["x"].to_pylist() == [1]
    publish(warehouse, "c", [3])
    assert folders(warehouse) == ["b-1", "c-1"]


def test_the_same_content_may_be_published_again(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])
    publish(warehouse, "a", [1])
    assert content(warehouse) == [1]
    assert folders(warehouse) == ["a-1", "a-2"]


def test_an_exception_before_publication_leaves_the_old_table_and_no_rest(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])

    def fail() -> None:
        with warehouse.writing("groups", DAY, "b") as draft:
            Storage(draft.url).write_table(pa.table({"x": [2]}), "part-00000.parquet")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert content(warehouse) == [1]
    publish(warehouse, "c", [3])
    assert folders(warehouse) == ["a-1", "c-1"]


WRITER = """
    import sys, time
    import pyarrow as pa
    from ulr.warehouse.storage import Storage
    from ulr.warehouse.tables import Warehouse
    with Warehouse(sys.argv[1]).writing("groups", "dt=2026-01-01", "killed") as draft:
        Storage(draft.url).write_table(pa.table({"x": [9]}), "part-00000.parquet")
        print("written", flush=True)
        time.sleep(60)
"""


@pytest.fixture
def writer(tmp_path):
    """Another process that has written its files and has not published them yet."""
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "written\n"
    yield process
    process.kill()
    process.wait()


def test_a_writer_killed_before_publication_leaves_the_old_table_whole(tmp_path, request):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])
    process = request.getfixturevalue("writer")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert content(warehouse) == [1]
    assert "killed-1" in folders(warehouse)
    publish(warehouse, "b", [2])  # the lock died with its owner, and its files are swept up
    assert content(warehouse) == [2]
    assert folders(warehouse) == ["a-1", "b-1"]


def test_of_two_writers_at_once_the_second_says_who_the_first_is(tmp_path, writer):
    warehouse = Warehouse(str(tmp_path))
    with pytest.raises(UserError, match=f"being written by process {writer.pid}"):
        publish(warehouse, "b", [2])
    publish(warehouse, "c", [3], "dt=2026-01-02")  # another date is free


def test_a_table_that_is_not_there_is_one_clear_line(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    with pytest.raises(UserError, match="has no groups dt=2026-01-01; run `ulr groups`"):
        warehouse.files("groups", DAY)
    publish(warehouse, "a", [1])
    with pytest.raises(UserError, match="there is dt=2026-01-01 to dt=2026-01-01"):
        warehouse.files("groups", "dt=2026-03-01")


def test_a_lease_excludes_others_is_renewed_and_runs_out(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "LEASE_S", 0.4)
    monkeypatch.setattr(lock, "SETTLE_S", 0.01)
    storage = Storage(str(tmp_path))
    with lock.lease(storage, "t", "t"):
        time.sleep(0.8)  # longer than the lease: only renewal keeps it
        with pytest.raises(UserError, match="being written"), lock.lease(storage, "t", "t"):
            pass
    assert not storage.exists("t", ".lock")
    storage.write_json({"until": time.time() - 1, "pid": 1}, "t", ".lock")  # a dead owner's
    with lock.lease(storage, "t", "t"):
        pass


RIVAL = {"token": "rival", "pid": 7, "host": "h", "since": "now"}


@pytest.fixture
def leases(monkeypatch):
    """Leases on the local filesystem, as object stores have them."""
    monkeypatch.setattr(lock, "SETTLE_S", 0.01)
    monkeypatch.setattr(lock, "_flock", lock.lease)


def test_a_renewal_that_fails_once_is_tried_again(tmp_path, leases, monkeypatch):
    monkeypatch.setattr(lock, "LEASE_S", 0.4)
    storage = Storage(str(tmp_path))
    with lock.lease(storage, "t", "t"):
        whole, failed = storage.write_json, []

        def fail_once(*content) -> None:
            if not failed:
                failed.append(content)
                raise OSError("the store is busy")
            whole(*content)

        monkeypatch.setattr(storage, "write_json", fail_once)
        time.sleep(0.8)
        assert failed
        with pytest.raises(UserError, match="being written"), lock.lease(storage, "t", "t"):
            pass


def test_a_successors_lock_is_neither_overwritten_nor_removed(tmp_path, leases):
    storage = Storage(str(tmp_path))
    with lock.lease(storage, "t", "t") as assure:
        assure()
        storage.write_json(RIVAL | {"until": time.time() + 9}, "t", ".lock")
        with pytest.raises(UserError, match="another has begun to write"):
            assure()
    assert storage.read_json("t", ".lock")["token"] == "rival"


def test_a_writer_that_slept_through_its_lease_publishes_nothing(tmp_path, leases):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])
    with warehouse.writing("groups", DAY, "b") as draft:
        Storage(draft.url).write_table(pa.table({"x": [2]}), "part-00000.parquet")
        rival = RIVAL | {"until": time.time() + 9}
        warehouse.storage.write_json(rival, f"groups/{DAY}", ".lock")
        warehouse.storage.write_text("", f"groups/{DAY}", "rival-1", "part-00000.parquet")
        with pytest.raises(UserError, match="another has begun to write"):
            draft.publish({})
    assert content(warehouse) == [1]
    assert "rival-1" in folders(warehouse)  # what the successor is writing is left alone


def test_files_that_were_swept_away_are_not_published_as_an_empty_table(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    publish(warehouse, "a", [1])
    with warehouse.writing("groups", DAY, "b") as draft:
        files = Storage(draft.url)
        files.write_table(pa.table({"x": [2]}), "part-00000.parquet")
        files.delete()
        files.write_table(pa.table({"x": [3]}), "part-00001.parquet")
        with pytest.raises(UserError, match="b-1: another run removed these files"):
            draft.publish({})
    assert content(warehouse) == [1]
    with warehouse.writing("groups", DAY, "c") as draft:  # a table without files is one
        draft.publish({"rows": 0})
    assert warehouse.files("groups", DAY) == []
    assert not list(tmp_path.rglob("_*"))


@pytest.mark.parametrize("kind", ["renames", "uploads"])
def test_a_write_that_fails_halfway_leaves_the_old_file_and_no_rest(tmp_path, kind):
    storage = Storage(str(tmp_path))
    if kind == "uploads":  # Arrow's filesystem in memory shows a file on closing, like a store
        storage.fs, storage.root = _MockFileSystem(), "bucket"
    storage.write_text("old", "t", "a.json")

    def half(stream) -> None:
        stream.write(b"ne")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        storage._replace(storage.path("t", "a.json"), half)
    assert storage.read_text("t", "a.json") == "old"
    storage.write_text("new", "t", "a.json")
    assert storage.read_text("t", "a.json") == "new"
    assert [i.base_name for i in storage._infos(("t",), recursive=True)] == ["a.json"]


def test_the_later_of_two_claims_made_at_once_wins(tmp_path, monkeypatch):
    storage = Storage(str(tmp_path))
    monkeypatch.setattr(lock, "SETTLE_S", 0.0)
    rival = {"token": "rival", "until": time.time() + 9, "pid": 7, "host": "h", "since": "now"}
    monkeypatch.setattr(lock.time, "sleep", lambda _: storage.write_json(rival, "t", ".lock"))
    with pytest.raises(UserError, match="process 7 on h"), lock.lease(storage, "t", "t"):
        pass


def test_equal_values_have_equal_fingerprints():
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})


def test_a_url_of_no_known_filesystem_is_one_clear_line():
    with pytest.raises(UserError, match="cannot open 'nosuch://x'"):
        open_filesystem("nosuch://x")


def test_files_that_are_not_data_are_not_listed(tmp_path):
    for name in ("a.parquet", "_SUCCESS", ".hidden", "sub/b.parquet", "_tmp/c.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [f.path for f in Storage(str(tmp_path)).files()] == ["a.parquet", "sub/b.parquet"]


def test_a_table_that_is_not_there_names_the_stage_that_makes_it(tmp_path):
    with pytest.raises(UserError, match="has no joint_propensities; run `ulr propensities` first"):
        Warehouse(str(tmp_path)).files("joint_propensities")
