"""The views that other engines read: published rows only, also after a date was replaced."""

from __future__ import annotations

import datetime as dt
import json
import re

import pyarrow as pa
import pytest

import ulr.warehouse.schema as schemas
from ulr.cli.main import main
from ulr.errors import DamagedTable, UserError
from ulr.warehouse.catalog import published_tables
from ulr.warehouse.storage import Storage, write_file
from ulr.warehouse.table_files import TableFiles
from ulr.warehouse.tables import Warehouse
from ulr.warehouse.views import ENGINES, _type, views

DATES = ["2026-01-01", "2026-01-02"]
ROWS = {"groups": 7, "metrics": 5, "propensities": 4, "quarantine": 0}
SINGLE = 'quo"te'  # a query that needs escaping as a text


def publish(warehouse, table, partition, *parts, fingerprint="f"):
    with warehouse.writing(table, partition, fingerprint) as transaction:
        for n, part in enumerate(parts):
            TableFiles(transaction.url).write_table(part, f"part-{n:05}.parquet")
        transaction.publish({"rows": sum(part.num_rows for part in parts)})


def groups(*queries):
    row = {"segment": None, "bucket": None, "swapped": None, "ranking": 1, "doc_ids": ["a"],
           "patterns": [1], "counts": [2]}  # fmt: skip
    return pa.Table.from_pylist([{"query_id": q} | row for q in queries], schemas.groups_schema)


def metrics(stage, rows):
    columns = {"stage": stage, "subject": "joint", "name": "ndcg", "value": 0.5}
    return pa.Table.from_pylist([columns] * rows, schemas.metrics_schema)


@pytest.fixture(params=["plain", "a folder's {name}, x=1"])
def warehouse(tmp_path, request):
    """Return a warehouse in which a date and a table were replaced, and a re-run has groups too."""
    warehouse = Warehouse(str(tmp_path / request.param / "warehouse"))
    publish(warehouse, "groups", "dt=2026-01-01", groups("a", "b", "old"))
    publish(warehouse, "groups", "dt=2026-01-02", groups("a", SINGLE))
    publish(warehouse, "groups", "dt=2026-01-01", groups("a", "b", "c"), groups("d", "e"),
            fingerprint="g")  # fmt: skip
    for fingerprint in "fg":
        rows = pa.table({"position": [1, 2, 3, 4], "theta": [1.0, 0.5, 0.3, 0.2]})
        publish(warehouse, "propensities", "", rows, fingerprint=fingerprint)
    for stage, rows in (("evaluate-method=joint", 2), ("pairs-method=joint", 3)):
        publish(warehouse, "metrics", f"stage={stage}", metrics(stage, rows))
    for date in DATES:
        publish(warehouse, "quarantine", f"dt={date}")
    with warehouse.writing("models", "method=joint", "f") as transaction:
        TableFiles(transaction.url).write_text("a model", "model.txt")
        transaction.publish({"trees": 1})
    publish(Warehouse(warehouse.storage.child("reruns", "leaves")), "groups", "", groups("z"))
    return warehouse


def manifest_rows(warehouse):
    return {table.name: sum(m.counts["rows"] for m in table.manifests)
            for table in published_tables(warehouse.storage)
            if table.name in ROWS}  # fmt: skip


def test_rows_are_counted_in_the_published_files(warehouse):
    tables = {table.name: table for table in published_tables(warehouse.storage)}
    assert {name: tables[name].rows() for name in ROWS} == ROWS == manifest_rows(warehouse)
    assert tables["models"].rows() is None
    assert tables["reruns/leaves/groups"].rows() == 1
    assert list(tables["groups"].partitions) == [f"dt={date}" for date in DATES]
    assert len(list(tables["groups"].parquet())) == 3


def test_duckdb_reads_the_rows_of_the_manifests_and_prunes_dates(warehouse):
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute(views(warehouse.storage, "duckdb"))
    for name, rows in ROWS.items():
        assert connection.execute(f'SELECT count(*) FROM "{name}"').fetchone() == (rows,)
    by_date = "SELECT dt, list(query_id ORDER BY query_id) FROM groups GROUP BY dt ORDER BY dt"
    assert connection.execute(by_date).fetchall() == [
        (dt.date(2026, 1, 1), list("abcde")), (dt.date(2026, 1, 2), ["a", SINGLE])
    ]  # fmt: skip
    stages = connection.execute("SELECT stage, count(*) FROM metrics GROUP BY stage ORDER BY stage")
    assert stages.fetchall() == [("evaluate-method=joint", 2), ("pairs-method=joint", 3)]
    described = connection.execute("DESCRIBE quarantine").fetchall()
    assert [row[0] for row in described] == [*schemas.quarantine_schema.names, "dt"]
    plan = connection.execute("EXPLAIN ANALYZE SELECT * FROM groups WHERE dt = '2026-01-02'")
    assert "dt=2026-01-01" not in str(plan.fetchall())
    connection.execute(views(warehouse.storage, "duckdb"))  # again


def test_spark_reads_the_rows_of_the_manifests(spark, warehouse):
    session = spark.newSession()
    sql = views(warehouse.storage, "spark")
    for statement in filter(str.strip, re.sub("^--.*$", "", sql, flags=re.MULTILINE).split(";\n")):
        session.sql(statement)
    for name, rows in ROWS.items():
        assert session.table(name).count() == rows
    by_date = session.table("groups").groupBy("dt").count().orderBy("dt").collect()
    assert [tuple(row) for row in by_date] == [
        (dt.date(2026, 1, 1), 5), (dt.date(2026, 1, 2), 2)
    ]  # fmt: skip
    assert session.table("groups").columns == [*schemas.groups_schema.names, "dt"]
    assert {row.stage for row in session.table("metrics").collect()} == {
        "evaluate-method=joint", "pairs-method=joint"
    }  # fmt: skip


def test_trino_registers_the_published_folder_of_every_date(warehouse):
    sql = views(warehouse.storage, "trino")
    tables = {table.name: table for table in published_tables(warehouse.storage)}
    root = f"file://{warehouse.storage.root}".replace("'", "''")
    registered = re.findall(r"ARRAY\['dt'\], ARRAY\['(.*?)'\], '(.*)'\);", sql)
    assert registered == [
        (date, f"{root}/{'/'.join(tables['groups'].folder(f'dt={date}'))}") for date in DATES
    ]
    assert f"external_location = '{root}/{'/'.join(tables['propensities'].folder(''))}'" in sql
    assert sql.count("CREATE TABLE") == sql.count("DROP TABLE IF EXISTS") == len(ROWS)
    columns = re.search(r'CREATE TABLE ulr."groups" \((.*?)\) WITH', sql, re.DOTALL)[1]
    assert [line.strip(" ,") for line in columns.split("\n") if line] == [
        '"query_id" varchar', '"segment" varchar', '"bucket" varchar', '"swapped" boolean',
        '"ranking" bigint', '"doc_ids" array(varchar)', '"patterns" array(bigint)',
        '"counts" array(bigint)', '"dt" date',
    ]  # fmt: skip
    stages = re.search(r'CREATE TABLE ulr."metrics" \((.*?)\) WITH', sql, re.DOTALL)[1]
    assert stages.count('"stage"') == 1
    assert stages.rstrip().endswith('"stage" varchar')


@pytest.mark.parametrize("engine", ENGINES)
def test_every_column_of_every_table_has_a_type_and_the_same_tables_give_the_same_text(
    engine, warehouse
):
    written = [schema for name, schema in vars(schemas).items()
               if name.endswith("_schema") and not name.endswith("read_schema")]  # fmt: skip
    assert all(_type(field.type, engine) for schema in written for field in schema)
    text = views(warehouse.storage, engine)
    assert text == views(warehouse.storage, engine)
    assert "-- models has no Parquet files" in text
    assert "reruns" not in text


def test_a_damaged_manifest_is_an_error_and_is_listed(warehouse, capsys):
    warehouse.storage.write_text("{", "groups/dt=2026-01-02", "manifest.json")
    with pytest.raises(DamagedTable, match="manifest of groups dt=2026-01-02 is damaged"):
        views(warehouse.storage, "duckdb")
    assert main(["tables", "--json", "--set", f"warehouse.path={warehouse.storage.root}"]) == 0
    rows = {row["table"]: row for row in json.loads(capsys.readouterr().out)["tables"]}
    assert (rows["groups"]["damaged"], rows["groups"]["rows"]) == (1, 5)


def test_the_command_lists_rows_and_writes_views(tmp_path, capsys):
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    publish(warehouse, "groups", "dt=2026-01-01", groups("a", "b", "c"))
    flags = ["--set", f"warehouse.path={warehouse.storage.root}"]
    assert main(["tables", *flags]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [
        "groups", "1", "dt=2026-01-01", "dt=2026-01-01", "3", "1", "0.0"
    ]  # fmt: skip
    assert main(["tables", "--views", "spark", *flags]) == 0
    assert capsys.readouterr().out == views(warehouse.storage, "spark")
    target = tmp_path / "sql" / "views.sql"
    assert main(["tables", "--views", "duckdb", "--out", str(target), *flags]) == 0
    assert target.read_text() == views(warehouse.storage, "duckdb")
    for wrong in (["--out", "x"], ["--views", "spark", "--expire"], ["--dry-run"]):
        assert main(["tables", *wrong, *flags]) == 2


def test_a_file_is_written_to_a_path_or_a_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url in ("a.txt", f"{tmp_path}/b/a.txt", f"file://{tmp_path}/c/a.txt"):
        write_file(url, "text")
    assert [path.read_text() for path in sorted(tmp_path.rglob("a.txt"))] == ["text"] * 3
    for url in ("s3://bucket", "folder/", "hdfs://host:8020"):
        with pytest.raises(UserError, match="names no file"):
            write_file(url, "text")
    assert not Storage(str(tmp_path / "folder")).exists()
