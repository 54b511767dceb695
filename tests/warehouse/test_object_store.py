"""A warehouse on an object store: an S3 server on the loopback interface."""

from __future__ import annotations

import contextlib
import logging

import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer

from ulr.cli.main import main
from ulr.errors import UserError
from ulr.warehouse import lock
from ulr.warehouse.tables import Warehouse

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
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    moto.start()
    yield ":".join(map(str, moto.get_host_and_port()))
    moto.stop()


def url_of(server: str, path: str, **more: str) -> str:
    options = {"endpoint_override": server, "scheme": "http", "region": "us-east-1", **more}
    return f"s3://nobody:{SECRET}@{path}?" + "&".join(f"{k}={v}" for k, v in options.items())


@pytest.fixture
def bucket(server, request, monkeypatch):
    monkeypatch.setattr(lock, "SETTLE_S", 0.01)
    name = f"bucket-{abs(hash(request.node.name))}"
    return url_of(server, f"{name}/tables", allow_bucket_creation="true")


def publish(warehouse: Warehouse, table: pa.Table, fingerprint: str) -> None:
    with warehouse.writing("scores", "", fingerprint) as transaction:
        transaction.write_table(table)
        transaction.publish({})


def test_a_table_is_published_and_replaced_and_old_files_are_removed(bucket):
    warehouse = Warehouse(bucket)
    for n in range(3):
        publish(warehouse, TABLE.slice(n), f"v{n}")
        assert warehouse.read("scores").equals(TABLE.slice(n))
    # The replaced version stays for its readers.
    assert warehouse.storage.folders("scores") == ["v1-1", "v2-1"]
    assert not warehouse.storage.exists("scores", ".lock")


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
    assert warehouse.storage.folders("scores") == ["good-1"]


def test_a_second_writer_is_refused(bucket):
    warehouse = Warehouse(bucket)
    with (
        warehouse.writing("scores", "", "first"),
        pytest.raises(UserError, match="is being written"),
    ):
        publish(warehouse, TABLE, "second")


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
    spark, bucket, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    changes = {**SMALL, "warehouse.path": bucket}
    flags = [flag for k, v in changes.items() for flag in ("--set", f"{k}={v}")]
    assert main(["simulate", *flags]) == 0
    for stage in ("groups", "propensities", "pairs", "train"):
        dated = ["--date", "2026-01-01"] if stage != "train" else []
        assert main([stage, *dated, *flags]) == 0, capsys.readouterr().err
    warehouse = Warehouse(bucket)
    (model, record) = sorted(warehouse.files("models", "method=joint"))
    assert model.endswith("model.txt")
    assert warehouse.current("models", "method=joint").counts["trees"] > 0
    assert not (tmp_path / "data" / "warehouse").exists()
    assert record.endswith("record.json")
    assert main(["score", "--model", "joint", *flags]) == 0
    out, err = capsys.readouterr()
    assert f"-> s3://***@{bucket.partition('@')[2].partition('?')[0]}/scores/" in out
    assert SECRET not in out + err
