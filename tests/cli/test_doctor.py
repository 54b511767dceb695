"""Each check on a condition that it must detect."""

from __future__ import annotations

import http.server
import json
import os
import random
import sys
import threading
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from tests.support.logs import NOON, page, write_parquet
from tests.support.registry_server import free_port
from ulr.cli.doctor import libraries, machine, places
from ulr.cli.doctor.checks import ERROR, OK, WARNING, Check, run_check
from ulr.cli.doctor.features import features_are_readable
from ulr.cli.doctor.log import log_is_readable
from ulr.cli.main import main
from ulr.config.load import load_settings
from ulr.errors import UserError
from ulr.registry import Registry
from ulr.warehouse.tables import Warehouse


def program(path, prints: str):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{prints}'\n")
    path.chmod(0o755)
    return path


def test_java_must_exist_in_java_home_and_be_recent(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    folder = program(tmp_path / "path" / "java", 'openjdk version "17.0.9"').parent
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    assert machine.java().verdict == OK
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = machine.java()
    assert (result.verdict, result.fix.split("#")[0].strip()) == (ERROR, "unset JAVA_HOME")
    program(tmp_path / "bin" / "java", 'openjdk version "1.8.0_392"')
    assert "is Java 8; Spark needs 17" in machine.java().message
    with monkeypatch.context() as spark_3:
        spark_3.setattr("pyspark.__version__", "3.5.8")
        assert machine.java().verdict == OK
    program(tmp_path / "bin" / "java", 'openjdk version "21.0.2" 2024-01-16')
    assert machine.java().verdict == OK


def test_workers_with_another_python_are_an_error(tmp_path, monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert machine.python().verdict == OK
    monkeypatch.setenv("PYSPARK_PYTHON", str(program(tmp_path / "python", "3.9")))
    result = machine.python()
    assert (result.verdict, result.fix) == (ERROR, f"export PYSPARK_PYTHON={sys.executable}")
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "absent"))
    assert "no such file" in machine.python().message
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert machine.python().verdict == OK


@pytest.mark.parametrize(("share", "verdict"), [(0.25, OK), (0.75, WARNING), (1.5, ERROR)])
def test_memory_must_hold_the_heap_and_as_much_again(share, verdict):
    heap = f"{int(machine.free_memory() * share) // 2**20}m"
    assert machine.memory(heap).verdict == verdict


def test_free_memory_respects_the_containers_limit_without_its_page_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    content = {"max": 900, "current": 800, "stat": "anon 90\nactive_file 10\ninactive_file 700"}
    for name, value in content.items():
        (tmp_path / f"memory.{name}").write_text(f"{value}\n")
    assert machine.free_memory() == 900 - (800 - 700)
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.free_memory() > 2**20


def test_sizes_are_parsed_as_spark_parses_them():
    assert [machine.size_of(s) for s in ("3g", "512m", "1024k", "7")] == [
        3 * 2**30, 512 * 2**20, 2**20, 7 * 2**20]  # fmt: skip
    with pytest.raises(ValueError, match="expected a size such as 4g"):
        machine.size_of("much")


def test_a_full_file_system_is_an_error(tmp_path):
    assert machine.disk(str(tmp_path / "not" / "yet")).verdict in (OK, WARNING)
    assert machine.disk("/proc/warehouse").verdict == ERROR


def test_the_scratch_folder_is_that_of_the_settings(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert machine.disk(str(tmp_path), "/proc").verdict == ERROR
    assert f"free for Spark's scratch folder {tmp_path}/b" in (
        machine.disk(str(tmp_path), f"{tmp_path}/a,{tmp_path}/b").message)  # fmt: skip
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))  # takes precedence in Spark
    assert machine.disk(str(tmp_path), "/proc").verdict != ERROR


def test_more_workers_than_slots_are_an_error_that_names_the_number(spark, monkeypatch):
    assert "runs 2 tasks at once" in libraries.spark_slots({}, 2).message
    monkeypatch.setattr("ulr.engine.spark.session.is_readable_on_the_network", lambda conf: True)
    result = libraries.spark_slots({}, 2)
    assert (result.verdict, result.fix) == (WARNING, libraries.ENCRYPT)
    result = libraries.spark_slots({}, 99)
    assert (result.verdict, result.fix) == (ERROR, "ulr doctor --set train.num_workers=2")


@pytest.mark.parametrize(
    ("check", "library", "user"),
    [
        (libraries.lightgbm_loads, "lightgbm", "ulr.models.booster"),
        (libraries.numba_compiles, "numba", "ulr.kernels.order"),
    ],
)
def test_a_library_that_cannot_be_loaded_is_an_error(check, library, user, monkeypatch):
    assert check().verdict == OK
    monkeypatch.delitem(sys.modules, user)
    monkeypatch.setitem(sys.modules, library, None)  # makes its import fail
    result = run_check(Check(library, check, "install it"))
    assert (result.verdict, result.fix) == (ERROR, "install it")
    assert library in result.message


def test_the_check_leaves_the_warehouse_unchanged(tmp_path):
    assert places.warehouse_publishes(str(tmp_path / "new")).verdict == OK
    assert not (tmp_path / "new").exists()
    assert places.warehouse_publishes(str(tmp_path)).verdict == OK
    assert list(tmp_path.iterdir()) == []


def test_a_warehouse_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    check = Check("warehouse", lambda: places.warehouse_publishes(f"{tmp_path}/file/x"), "fix")
    assert run_check(check).verdict == ERROR


def test_a_file_system_without_locks_is_detected(tmp_path):
    with pytest.raises(UserError, match="does not support locks"):  # no process holds it now
        places._second_writer_is_refused(Warehouse(str(tmp_path)), "at=1")


def test_an_unreachable_registry_is_an_error_with_the_command_that_starts_one():
    port = free_port()
    registry = Registry(f"http://127.0.0.1:{port}", experiment="e", name="n", retries=0)
    result = places.registry_answers(lambda: registry)
    assert (result.verdict, result.fix) == (ERROR, f"mlflow server --port {port}")


def test_a_password_in_the_address_is_used_and_never_printed():
    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args):
            pass

    class Known:
        name, folder = "ranker", None

        def __init__(self, port: int) -> None:
            self.uri = f"http://me:p@ss@127.0.0.1:{port}"

        def versions(self):
            return []

    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        there, gone = Known(server.server_port), Known(free_port())
        result = [run_check(Check("mlflow", partial(places.registry_answers, lambda r=r: r), "fix"))
                 for r in (there, gone)]  # fmt: skip
        server.shutdown()
    assert [one.verdict for one in result] == [OK, ERROR]
    assert all("http://***@127.0.0.1" in one.message for one in result)


def test_the_command_ends_with_1_if_a_check_found_an_error(spark, tmp_path, capsys):
    good = ["doctor", "--json", "--set", f"mlflow.local_path={tmp_path}/mlflow",
            "--set", f"warehouse.path={tmp_path}/warehouse"]  # fmt: skip
    assert main(good) == 0
    lines = json.loads(capsys.readouterr().out)
    assert len({line["check"] for line in lines}) == 9
    assert main([*good, "--set", "engine=spark", "--set", "train.num_workers=99"]) == 1
    out, err = capsys.readouterr()
    assert [line["check"] for line in json.loads(out) if line["verdict"] == "error"] == ["spark"]
    assert err == "ulr: 1 of 13 checks found an error: spark\n"


def test_the_features_are_described_or_the_mistake_is_named(spark, tmp_path):
    def find(*changes):
        settings = load_settings(None, [f"features.path={tmp_path}/rows.parquet", *changes])
        return run_check(Check("features", partial(features_are_readable, settings), "fix"))

    assert find().verdict == WARNING
    assert find("simulate.path=data", "features.path=data/features").verdict == OK
    rows = {"query_id": ["q"], "doc_id": ["d"], "features": [[1.0, 2.0, 3.0]],
            "price": [1.5], "stock": [3], "brand": ["x"]}  # fmt: skip
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    assert find().message.endswith("has 3 features, numbers in features, without names")
    described = "has 2 features, columns of double, int64: price, stock"
    assert find("features.columns=all").message.endswith(described)
    result = find("features.columns=[brand]")
    assert (result.verdict, result.fix) == (ERROR, "fix")
    assert "column brand is string" in result.message
    spark.read.parquet(f"{tmp_path}/rows.parquet").createOrReplaceTempView("rows")
    described = "table rows has 2 features, columns of bigint, double: stock, price"
    result = find("features.table=rows", "features.columns=[stock, price]")
    assert result.message.endswith(described)


def test_the_version_of_spark_must_be_supported_and_that_of_spark_home(tmp_path, monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert libraries.pyspark_version().message.startswith(f"pyspark {pyspark.__version__}, supp")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert libraries.pyspark_version().verdict == OK
    (tmp_path / "RELEASE").write_text("Spark 3.4.1 built for Hadoop 3.3.4\n")
    result = libraries.pyspark_version()
    assert (result.verdict, "is Spark 3.4.1" in result.message) == (ERROR, True)
    assert result.fix == "unset SPARK_HOME, or pip install pyspark==3.4.1"
    monkeypatch.delenv("SPARK_HOME")
    for version, verdict, word in (("3.4.4", ERROR, "needed: 3.5"), ("4.0.2", OK, "40 ms")):
        monkeypatch.setattr("pyspark.__version__", version)
        result = libraries.pyspark_version()
        assert result.verdict == verdict
        assert word in result.message


def find_log(*changes: str, conf: str | None = None, date: str | None = "2026-01-01"):
    settings = load_settings(conf, ["simulate.path=/nowhere", *changes])
    return run_check(Check("log", partial(log_is_readable, settings, date), "fix"))


def test_a_log_of_files_is_described_or_the_mistake_is_named(tmp_path):
    assert find_log(f"log.path={tmp_path}/none").verdict == ERROR
    assert "yet; `ulr simulate`" in find_log(f"simulate.path={tmp_path}/s",
                                             f"log.path={tmp_path}/s/log").message  # fmt: skip
    rng = random.Random(1)
    rows = [page(n, rng) for n in range(50)]
    clicks = sum(sum(row["clicks"]) for row in rows)
    folder = write_parquet(tmp_path / "log" / "dt=2026-01-01", rows, files=1).parent
    result = find_log(f"log.path={folder}")
    assert (result.verdict, result.fix) == (OK, "")
    assert f"50 of the first 50 pages are valid, {clicks} clicks" in result.message
    assert "columns session_id, query_id, shown_at, doc_ids, clicks, segment" in result.message
    assert find_log(f"log.path={folder}", date=None).message == result.message  # its last date
    for row in rows[:20]:
        row |= {"query_id": ""}
    write_parquet(tmp_path / "bad", rows, files=1)
    result = find_log(f"log.path={tmp_path}/bad")
    assert result.verdict == ERROR
    assert "30 of the first 50 pages are valid" in result.message
    assert "(null_query_id 20)" in result.message
    assert find_log(f"log.path={tmp_path}/bad", "log.max_bad_fraction=0.5").verdict == OK
    assert find_log(f"log.path={folder}", "log.layout=impression").verdict == ERROR
    result = find_log(f"log.path={folder}/*", date="2026-02-01")
    assert result.verdict == OK  # files of many dates are not filtered for it


def test_mapped_and_missing_columns_of_a_table_are_named(spark, tmp_path):
    rows = [{"uuid": f"s{n}", "query_id": "q", "ts": 1767225600 + n, "items": ["a", "b"],
             "hits": [0, 0], "segmnt": "x"} for n in range(200)]  # fmt: skip
    spark.createDataFrame(rows).createOrReplaceTempView("shop_events")
    columns = ["log.columns.session_id=uuid", "log.columns.shown_at=timestamp_seconds(ts)",
               "log.columns.doc_ids=items", "log.columns.clicks=hits"]  # fmt: skip
    result = find_log("log.table=shop_events", *columns)
    assert result.verdict == WARNING  # nothing was clicked
    assert "shop_events of 2026-01-01: 200 of the first 200 pages are valid, 0 clicks" in (
        result.message
    )
    assert "session_id = uuid, query_id, shown_at = timestamp_seconds(ts)" in result.message
    assert "without segment (did you mean segmnt?), bucket, swapped" in result.message
    result = find_log("log.table=shop_events", *columns, "log.columns.clicks=hist")
    assert (result.verdict, "did you mean hits?" in result.message) == (ERROR, True)
    assert "\n" not in result.message
    result = find_log("log.table=shop_events", *columns, date="2026-02-01")
    assert (result.verdict, "no row" in result.message) == (WARNING, True)
    result = find_log("log.table=shop_evnts", *columns)
    assert "did you mean shop_events?" in result.message


def test_impressions_and_missing_dates_are_described(tmp_path):
    rows = [{"session_id": f"s{n // 2}", "query_id": "q", "shown_at": NOON, "doc_id": f"d{n % 2}",
             "position": n % 2 + 1, "clicked": n % 3 == 0} for n in range(30)]  # fmt: skip
    rows[4]["position"] = None
    (tmp_path / "log").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log" / "a.parquet")
    result = find_log(f"log.path={tmp_path}/log", "log.layout=impression")
    assert "29 of the first 30 impressions are valid, 10 clicks (null_position 1)" in result.message
    dated = f"log.path={tmp_path}/log/{{date}}.parquet"
    assert find_log(dated).verdict == ERROR
    result = find_log(dated, date=None)
    assert (result.verdict, "--date" in result.fix) == (WARNING, True)
