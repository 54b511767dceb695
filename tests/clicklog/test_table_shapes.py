"""Tables of the shapes and types that users have give the groups of files of the contract."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.clicklog.test_formats import impressions_of
from tests.support.logs import DATE, build, page, rows_of, settings, write_parquet
from ulr.clicklog.sources import find_source
from ulr.errors import InvalidData, UserError

pytestmark = pytest.mark.all

NEXT_DAY = DATE + dt.timedelta(days=1)
DATABASE = "ulr_shapes"


@pytest.fixture
def plain(spark_engine, tmp_path):
    """Return a log and its groups, as files of the contract give them."""
    rng = random.Random(7)
    log = [page(n, rng) for n in range(120)]
    build(spark_engine, tmp_path / "plain", write_parquet(tmp_path / "pages", log))
    return log, rows_of(tmp_path / "plain", "groups")


@pytest.fixture
def database(spark_engine, tmp_path):
    spark_engine.session.sql(f"CREATE DATABASE {DATABASE} LOCATION '{tmp_path}/tables'")
    yield DATABASE
    spark_engine.session.sql(f"DROP DATABASE {DATABASE} CASCADE")


def view(
    spark_engine, folder: Path, rows: list[dict], name: str = "shapes", **types: pa.DataType
) -> str:
    """Write rows as Parquet and return a view of them; types: those of some columns."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = [{n: value for n, value in row.items() if n not in types} for row in rows]
    table = pa.Table.from_pylist(plain)
    for column, kind in types.items():
        table = table.append_column(column, pa.array([row[column] for row in rows], kind))
    pq.write_table(table, folder / "part-0.parquet")
    spark_engine.session.read.parquet(str(folder)).createOrReplaceTempView(name)
    return name


def from_table(spark_engine, root: Path, table: str, *changes: str, **options):
    return build(spark_engine, root, Path("nowhere"), f"log.table={table}", *changes, **options)


def columns(**texts: str) -> list[str]:
    return [f"log.columns.{name}={json.dumps(text)}" for name, text in texts.items()]


def seconds(row: dict) -> int:
    return int(row["shown_at"].timestamp())


MOMENTS = {
    "seconds": seconds,
    "milliseconds": lambda row: seconds(row) * 1000,
    "microseconds": lambda row: seconds(row) * 10**6,
    "nanoseconds": lambda row: seconds(row) * 10**9,
    "double": lambda row: float(seconds(row)),
    "decimal": lambda row: Decimal(seconds(row)).quantize(Decimal("0.001")),
    "texts of numbers": lambda row: str(seconds(row) * 1000),
    "texts": lambda row: row["shown_at"].isoformat(),
    "texts without a zone": lambda row: row["shown_at"].strftime("%Y-%m-%d %H:%M:%S"),
    "without a zone": lambda row: row["shown_at"].replace(tzinfo=None),
    "dates": lambda row: row["shown_at"].date(),
}


@pytest.mark.parametrize("form", MOMENTS)
def test_times_of_any_type(spark_engine, tmp_path, plain, form):
    log, groups = plain
    other = [row | {"shown_at": row["shown_at"] + dt.timedelta(days=1)} for row in log[:30]]
    rows = [row | {"shown_at": MOMENTS[form](row)} for row in log + other]
    from_table(spark_engine, tmp_path / "w", view(spark_engine, tmp_path / "log", rows))
    assert rows_of(tmp_path / "w", "groups") == groups


CLICKS = {
    "bytes": (pa.list_(pa.int8()), int, "clicks"),
    "longs": (pa.list_(pa.int64()), int, "clicks"),
    "counts": (pa.list_(pa.int64()), lambda c: 3 * int(c), "transform(clicks, n -> n > 0)"),
    "texts": (pa.list_(pa.string()), lambda c: str(c).lower(), "clicks"),
    "doubles": (pa.list_(pa.float64()), float, "clicks"),
}


@pytest.mark.parametrize("form", CLICKS)
def test_clicks_of_any_type(spark_engine, tmp_path, plain, form):
    log, groups = plain
    kind, value, text = CLICKS[form]
    rows = [row | {"clicks": [value(c) for c in row["clicks"]]} for row in log]
    table = view(spark_engine, tmp_path / "log", rows, clicks=kind)
    from_table(spark_engine, tmp_path / "w", table, *columns(clicks=text))
    assert rows_of(tmp_path / "w", "groups") == groups


def test_lists_as_json_texts(spark_engine, tmp_path, plain):
    log, groups = plain
    texts = [{"doc_ids": json.dumps(row["doc_ids"]),
              "clicks": json.dumps([int(c) for c in row["clicks"]])} for row in log]  # fmt: skip
    rows = [row | text for row, text in zip(log, texts, strict=True)]
    from_table(spark_engine, tmp_path / "w", view(spark_engine, tmp_path / "log", rows))
    assert rows_of(tmp_path / "w", "groups") == groups
    (tmp_path / "json").mkdir()
    lines = [json.dumps(row | {"clicks": [int(c) for c in old["clicks"]],
                               "doc_ids": old["doc_ids"], "shown_at": str(old["shown_at"])})
             for row, old in zip(rows, log, strict=True)]  # fmt: skip
    (tmp_path / "json" / "log.json").write_text("\n".join(lines))
    build(spark_engine, tmp_path / "j", tmp_path / "json", "log.format=json")
    assert rows_of(tmp_path / "j", "groups") == groups


def ranked(row: dict) -> list[dict]:
    """Return the documents as structs in no order, with their ranks and click events."""
    click, seen = {"type": "click"}, {"type": "view"}
    items = [
        {"doc": {"id": d}, "rank": k, "events": [click] * c + [seen]}
        for k, (d, c) in enumerate(zip(row["doc_ids"], row["clicks"], strict=True))
    ]
    return sorted(items, key=lambda item: item["doc"]["id"])


ITEMS = "array_sort(items, (a, b) -> int(a.rank - b.rank))"
SHAPES = {
    "nested structs in no order": (
        lambda row: {"items": ranked(row)},
        {"doc_ids": f"transform({ITEMS}, i -> i.doc.id)",
         "clicks": f"transform({ITEMS}, i -> exists(i.events, e -> e.type = 'click'))"},
    ),
    "field of an array": (
        lambda row: {"items": [{"id": d} for d in row["doc_ids"]], "clicks": row["clicks"]},
        {"doc_ids": "items.id"},
    ),
    "clicked documents": (
        lambda row: {"shown": row["doc_ids"], "hits": [
            d for d, c in zip(row["doc_ids"], row["clicks"], strict=True) if c]},
        {"doc_ids": "shown", "clicks": "transform(shown, d -> array_contains(hits, d))"},
    ),
    "clicked positions from zero": (
        lambda row: {"shown": row["doc_ids"], "hits": [
            k for k, c in enumerate(row["clicks"]) if c]},
        {"doc_ids": "shown",
         "clicks": "transform(shown, (d, k) -> array_contains(hits, cast(k AS bigint)))"},
    ),
    "texts with commas": (
        lambda row: {"shown": ",".join(row["doc_ids"]), "clicks": row["clicks"]},
        {"doc_ids": "split(shown, ',')"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_documents_and_clicks_of_any_shape(spark_engine, tmp_path, plain, shape):
    log, groups = plain
    own, texts = SHAPES[shape]
    keys = [n for n in log[0] if n not in ("doc_ids", "clicks")]
    rows = [{n: row[n] for n in keys} | own(row) for row in log]
    from_table(
        spark_engine, tmp_path / "w", view(spark_engine, tmp_path / "log", rows), *columns(**texts)
    )
    assert rows_of(tmp_path / "w", "groups") == groups


def test_a_map_of_clicks_and_fields_of_a_struct(spark_engine, tmp_path, plain):
    log, groups = plain
    clicked = [[(d, 2) for d, c in zip(r["doc_ids"], r["clicks"], strict=True) if c] for r in log]
    rows = [row | {"request": {"id": row["session_id"], "q": {"text": row["query_id"]}},
                   "clicks": pairs} for row, pairs in zip(log, clicked, strict=True)]  # fmt: skip
    table = view(spark_engine, tmp_path / "log", rows, clicks=pa.map_(pa.string(), pa.int32()))
    texts = {"session_id": "request.id", "query_id": "request.q.text",
             "clicks": "transform(doc_ids, d -> coalesce(clicks[d], 0) > 0)"}  # fmt: skip
    from_table(spark_engine, tmp_path / "w", table, *columns(**texts))
    assert rows_of(tmp_path / "w", "groups") == groups


@pytest.mark.parametrize("first", [0, 1])
def test_a_table_of_impressions(spark_engine, tmp_path, plain, first):
    log, groups = plain
    rows = [{"sid": row["session_id"], "query_id": row["query_id"], "ts": seconds(row) * 1000,
             "sku": row["doc_id"], "rank": row["position"] - 1 + first, "hit": int(row["clicked"]),
             "segment": row["segment"], "bucket": row["bucket"], "swapped": row["swapped"]}
            for row in impressions_of(log)]  # fmt: skip
    random.Random(1).shuffle(rows)
    texts = columns(session_id="sid", shown_at="ts", doc_id="sku", position="rank", clicked="hit")
    table = view(spark_engine, tmp_path / "log", rows)
    from_table(spark_engine, tmp_path / "w", table, "log.layout=impression",
               f"log.first_position={first}", *texts)  # fmt: skip
    assert rows_of(tmp_path / "w", "groups") == groups


def test_names_in_other_cases_and_with_blanks(spark_engine, tmp_path, plain):
    log, groups = plain
    names = {"session_id": "Page ID", "query_id": "QUERY_ID", "doc_ids": "Doc.Ids"}
    rows = [{names.get(n, n.title()): value for n, value in row.items()} for row in log]
    table = view(spark_engine, tmp_path / "log", rows)
    from_table(
        spark_engine, tmp_path / "w", table, *columns(session_id="`page id`", doc_ids="`doc.ids`")
    )
    assert rows_of(tmp_path / "w", "groups") == groups
    with pytest.raises(UserError, match=r"no column page_id \(did you mean Page ID\?\)"):
        from_table(spark_engine, tmp_path / "w", table,
                   *columns(session_id="page_id", doc_ids="`doc.ids`"))  # fmt: skip


def test_tables_and_views_of_a_catalog(spark_engine, tmp_path, plain, database):
    log, groups = plain
    spark_engine.session.read.parquet(
        str(write_parquet(tmp_path / "p", log))
    ).createOrReplaceTempView("shapes")
    odd = f"{database}.`Search_Logs`"
    spark_engine.session.sql(f"CREATE TABLE {odd} USING parquet AS SELECT * FROM shapes")
    spark_engine.session.sql(f"CREATE VIEW {database}.pages AS SELECT * FROM {odd}")
    names = [odd, f"spark_catalog.{odd}", f"{database}.pages", f"parquet.`{tmp_path}/p`"]
    for number, name in enumerate(names):
        from_table(spark_engine, tmp_path / f"w{number}", name)
        assert rows_of(tmp_path / f"w{number}", "groups") == groups, name
        assert from_table(spark_engine, tmp_path / f"w{number}", name).skipped
    with pytest.raises(UserError, match=r"did you mean ulr_shapes\.pages\?") as error:
        from_table(spark_engine, tmp_path / "w", f"{database}.page")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["catalog", "files"])
def test_a_condition_reads_only_the_partition_of_its_date(
    spark_engine, tmp_path, plain, database, kind
):
    log, groups = plain
    spark_engine.session.read.parquet(
        str(write_parquet(tmp_path / "p", log))
    ).createOrReplaceTempView("shapes")
    union = f"SELECT *, '{DATE}' AS dt FROM shapes UNION ALL SELECT *, '{NEXT_DAY}' FROM shapes"
    table = f"{database}.by_day"
    spark_engine.session.sql(f"CREATE TABLE {table} USING parquet PARTITIONED BY (dt) AS {union}")
    if kind == "files":
        spark_engine.session.read.parquet(f"{tmp_path}/tables/by_day").createOrReplaceTempView(
            "by_day"
        )
        table = "by_day"
    where = "log.where=dt = '{date}'"
    chosen = settings(Path("nowhere"), f"log.table={table}", where).log
    source = find_source(spark_engine, chosen, DATE)
    assert {f"dt={DATE}" in path for path, *_ in source.identity[1]} == {True}
    leaves = source.rows._jdf.queryExecution().executedPlan().toString()
    assert f"= {DATE})" in leaves.partition("PartitionFilters: [")[2].partition("]")[0]
    read = {row.path for row in source.rows.selectExpr("input_file_name() AS path").collect()}
    assert len(read) > 0
    assert all(f"dt={DATE}" in path for path in read)
    from_table(spark_engine, tmp_path / "w", table, where)
    assert rows_of(tmp_path / "w", "groups") == groups
    spark_engine.session.sql(
        f"INSERT INTO {database}.by_day SELECT *, '{NEXT_DAY}' FROM shapes LIMIT 1"
    )
    if kind == "catalog":
        assert from_table(
            spark_engine, tmp_path / "w", table, where
        ).skipped  # another day has changed
    everything = settings(Path("nowhere"), f"log.table={table}").log
    size = find_source(spark_engine, everything, DATE).size()
    assert 0.4 < source.size() / size < 0.6  # of two equal partitions
    missing = DATE + dt.timedelta(days=9)
    with pytest.raises(InvalidData, match=r"0 valid pages in 0 rows.*complete"):
        from_table(spark_engine, tmp_path / "w", table, where, "log.min_pages=1", date=missing)


def test_a_changed_table_of_files_is_read_again(spark_engine, tmp_path, plain, database):
    log, groups = plain
    spark_engine.session.read.parquet(
        str(write_parquet(tmp_path / "p", log))
    ).createOrReplaceTempView("shapes")
    table = f"{database}.grows"
    spark_engine.session.sql(f"CREATE TABLE {table} USING parquet AS SELECT * FROM shapes LIMIT 10")
    assert from_table(spark_engine, tmp_path / "w", table).manifest.counts["pages"] == 10
    assert from_table(spark_engine, tmp_path / "w", table).skipped
    file = next((tmp_path / "tables" / "grows").glob("*.parquet"))
    more = pq.read_table(file).slice(0, 3).to_pylist()
    more = [row | {"session_id": f"new {n}"} for n, row in enumerate(more)]
    pq.write_table(pa.Table.from_pylist(more), file.parent / "other-program.parquet")
    assert from_table(spark_engine, tmp_path / "w", table).manifest.counts["pages"] == 13
    spark_engine.session.sql(f"INSERT OVERWRITE {table} SELECT * FROM shapes")
    assert not from_table(spark_engine, tmp_path / "w", table).skipped
    assert rows_of(tmp_path / "w", "groups") == groups


def test_a_query_may_give_a_name_twice_if_it_is_not_used(spark_engine, tmp_path, plain):
    log, groups = plain
    rows = [row | {"page": row["session_id"]} for row in log]
    view(spark_engine, tmp_path / "log", rows)
    query = "SELECT *, 1 AS note, 2 AS note FROM shapes"
    build(
        spark_engine,
        tmp_path / "w",
        Path("nowhere"),
        f"log.sql={query}",
        *columns(session_id="page"),
    )
    assert rows_of(tmp_path / "w", "groups") == groups
    assert build(spark_engine, tmp_path / "w", Path("nowhere"), f"log.sql={query}",
                 *columns(session_id="page")).skipped  # fmt: skip
    with pytest.raises(UserError, match=r"log\.columns\.segment = 'note': .*ambiguous"):
        build(
            spark_engine,
            tmp_path / "e",
            Path("nowhere"),
            f"log.sql={query}",
            *columns(segment="note"),
        )
