"""A warehouse on an object store: an S3 server on the loopback interface."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from tests.support.object_server import s3_server
from tests.support.proxy import FaultProxy
from tests.support.waiting import wait_until
from ulr.cli.main import main
from ulr.errors import LockTaken, PublishedByAnotherRun, TemporaryFailure, UserError
from ulr.warehouse import cleanup, lock, object_store
from ulr.warehouse.lock import hold
from ulr.warehouse.manifest import Manifest
from ulr.warehouse.table_files import TableFiles
from ulr.warehouse.tables import Warehouse
from ulr.warehouse.transaction import WriteTransaction

TABLE = pa.table({"n": [1, 2, 3]})
SECRET = "open-sesame"  # in the URL, since Spark's workers start before this server
SMALL = {
    "simulate.pages_per_day": 3000, "simulate.days": 1, "simulate.queries": 60,
    "simulate.features": 8, "simulate.docs_per_query": 6, "simulate.positions": 3,
    "groups.partitions": 2, "pairs.partitions": 2, "train.num_iterations": 3,
    "lightgbm.num_leaves": 4, "mlflow.live": False,
}  # fmt: skip


@pytest.fixture(scope="module")
def server():
    with s3_server() as address:
        yield address


def url_of(server: str, path: str, **more: str) -> str:
    options = {"endpoint_override": server, "scheme": "http", "region": "us-east-1", **more}
    return f"s3://nobody:{SECRET}@{path}?" + "&".join(f"{k}={v}" for k, v in options.items())


@pytest.fixture
def name(request):
    return f"bucket-{abs(hash(request.node.name))}"


@pytest.fixture
def bucket(server, name):
    return url_of(server, f"{name}/tables", allow_bucket_creation="true")


@pytest.fixture
def proxy(server):
    with FaultProxy(f"http://{server}") as proxy:
        yield proxy


@pytest.fixture
def behind_proxy(proxy, bucket, server):
    """Return the warehouse of `bucket` through the proxy; the bucket exists."""
    Warehouse(bucket).storage.write_text("", "created")
    return Warehouse(bucket.replace(server, proxy.url.removeprefix("http://")))


def versions(warehouse: Warehouse) -> list[str]:
    return sorted(name.rpartition("-")[0] for name in warehouse.storage.folders("scores"))


def publish(warehouse: Warehouse, table: pa.Table, fingerprint: str) -> None:
    with warehouse.writing("scores", "", fingerprint) as transaction:
        transaction.write_table(table)
        transaction.publish({})


def publish_or_fail(warehouse: Warehouse, table: pa.Table, fingerprint: str) -> None:
    with contextlib.suppress(TemporaryFailure):
        publish(warehouse, table, fingerprint)


def test_a_table_is_published_and_replaced_and_old_files_are_removed(bucket):
    warehouse = Warehouse(bucket)
    for n in range(3):
        publish(warehouse, TABLE.slice(n), f"v{n}")
        assert warehouse.read("scores").equals(TABLE.slice(n))
    # The replaced versions stay for their readers.
    assert versions(warehouse) == ["v0", "v1", "v2"]
    publish(Warehouse(bucket, keep_days=0), TABLE, "v3")
    assert versions(warehouse) == ["v3"]


def test_an_exception_leaves_the_old_table(bucket):
    warehouse = Warehouse(bucket)
    publish(warehouse, TABLE, "good")
    with (
        contextlib.suppress(ZeroDivisionError),
        warehouse.writing("scores", "", "bad") as transaction,
    ):
        transaction.write_table(TABLE.slice(1))
        raise ZeroDivisionError
    assert warehouse.read("scores").equals(TABLE)
    assert versions(warehouse) == ["good"]


def test_a_second_writer_is_refused(bucket):
    warehouse = Warehouse(bucket)
    with (
        warehouse.writing("scores", "", "first"),
        pytest.raises(UserError, match="is being written"),
    ):
        publish(warehouse, TABLE, "second")


def test_of_writers_that_race_exactly_one_publishes_each_version(bucket):
    warehouse = Warehouse(bucket)
    publish(warehouse, TABLE, "first")
    start = threading.Barrier(4)

    def race(number: int) -> bool:
        writer = Warehouse(bucket)
        current = writer._read_current("scores", "")
        draft = Manifest("scores", "", f"r{number}", f"r{number}-x")
        transaction = WriteTransaction(  # without the lock
            writer.storage, draft, current, check_owner=lambda: None, keep_days=1.0
        )
        transaction.write_table(TABLE.slice(number))
        start.wait()
        try:
            transaction.publish({})
        except PublishedByAnotherRun:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(race, range(4)))
    assert sum(won) == 1
    assert warehouse.read("scores").equals(TABLE.slice(won.index(True)))


def test_a_manifest_that_arrives_late_does_not_replace_a_newer_one(bucket, behind_proxy, proxy):
    publish(Warehouse(bucket), TABLE, "old")
    proxy.add("hold request", "manifest.json", method="PUT")
    delayed = threading.Thread(target=publish_or_fail, args=(behind_proxy, TABLE, "late"))
    delayed.start()
    wait_until(lambda: proxy.seen("manifest.json", "hold request"))
    # The lock of the paused run has expired.
    expired = {"token": "late", "until": 0}
    Warehouse(bucket).storage.write_json(expired, "scores", ".lock")
    publish(Warehouse(bucket), TABLE.slice(2), "new")
    proxy.release()
    delayed.join()
    assert Warehouse(bucket).current("scores").fingerprint == "new"
    assert Warehouse(bucket).read("scores").equals(TABLE.slice(2))


@pytest.mark.parametrize("action", ["lose answer", "cut answer", "lose request", "unavailable"])
def test_a_publication_whose_answer_is_lost_is_recognised(bucket, behind_proxy, proxy, action):
    publish(Warehouse(bucket), TABLE, "old")
    proxy.add(action, "manifest.json", method="PUT")
    publish(behind_proxy, TABLE.slice(1), "new")
    assert proxy.seen("manifest.json", action) == 1
    assert Warehouse(bucket).current("scores").fingerprint == "new"
    assert Warehouse(bucket).read("scores").equals(TABLE.slice(1))


def test_files_stay_if_the_store_stops_answering_after_it_published_them(
    bucket, behind_proxy, proxy, monkeypatch
):
    monkeypatch.setitem(object_store._RETRIES, "max_retries", 1)
    proxy.add("lose answer", "manifest.json", method="PUT")
    proxy.add("lose request", "manifest.json", method="PUT", times=9)
    proxy.add("lose request", "scores/manifest.json", method="GET", nth=2, times=9)
    with pytest.raises(TemporaryFailure, match="does not answer"):
        publish(behind_proxy, TABLE, "new")
    assert Warehouse(bucket).read("scores").equals(TABLE)


def test_an_abandoned_folder_is_removed_after_the_grace_period_only(bucket, monkeypatch):
    warehouse = Warehouse(bucket)
    TableFiles(warehouse.storage.child("scores", "dead-1")).mark({})
    publish(warehouse, TABLE, "a")
    assert versions(warehouse) == ["a", "dead"]
    monkeypatch.setattr(cleanup, "GRACE", dt.timedelta(seconds=-5))
    publish(warehouse, TABLE, "b")
    assert versions(warehouse) == ["a", "b"]


def test_a_lease_is_created_taken_over_and_released_by_conditional_writes(bucket, monkeypatch):
    storage = Warehouse(bucket).storage
    with hold(storage, "t", "t"):
        with pytest.raises(LockTaken, match="is being written"), hold(storage, "t", "t"):
            pass
        # As if this process had been paused for longer than the lease.
        monkeypatch.setattr(lock.time, "time", lambda now=time.time: now() + 2 * lock.LEASE_S)
        with hold(storage, "t", "t") as second:
            monkeypatch.undo()
            second()
    with hold(storage, "t", "t"):
        pass


def test_a_missing_bucket_is_reported_in_one_line(server, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    missing = url_of(server, "no-such-bucket/tables")
    code = main(["pairs", "--date", "2026-01-01", "--set", f"warehouse.path={missing}"])
    error = capsys.readouterr().err
    assert code == 2
    assert error.count("\n") == 1
    assert "no-such-bucket" in error
    assert SECRET not in error


def test_all_stages_from_groups_to_score_work_on_an_object_store(
    bucket, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    changes = {**SMALL, "warehouse.path": bucket}
    flags = [flag for k, v in changes.items() for flag in ("--set", f"{k}={v}")]
    assert main(["simulate", *flags]) == 0
    for stage in ("groups", "propensities", "pairs", "train"):
        dated = ["--date", "2026-01-01"] if stage != "train" else []
        assert main([stage, *dated, *flags]) == 0, capsys.readouterr().err
    warehouse = Warehouse(bucket)
    (model, record) = sorted(warehouse.files("models", "method=auto"))
    assert model.endswith("model.txt")
    assert warehouse.current("models", "method=auto").counts["trees"] > 0
    assert not (tmp_path / "data" / "warehouse").exists()
    assert record.endswith("record.json")
    assert main(["score", "--model", "auto", *flags]) == 0
    out, err = capsys.readouterr()
    assert f"-> s3://***@{bucket.partition('@')[2].partition('?')[0]}/scores/" in out
    assert SECRET not in out + err
