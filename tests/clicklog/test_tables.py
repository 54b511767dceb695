"""A log in any table, query, format and types gives the same groups as a log of the contract."""

from __future__ import annotations

import datetime as dt
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.clicklog.test_formats import impressions_of
from tests.support.logs import DATE, broken_log, build, page, rows_of, write_parquet
from ulr.clicklog.quarantine import reasons_in
from ulr.errors import UserError

NEXT_DAY = DATE + dt.timedelta(days=1)
# Clicks as flags, ids and times as numbers, documents in structs, other names.
COLUMNS = {
    "session_id": "uuid",
    "query_id": "coalesce(term, '')",
    "shown_at": "timestamp_millis(at)",
    "doc_ids": "transform(items, i -> i.id)",
    "clicks": "transform(items, i -> i.hit)",
    "segment": "device",
    "bucket": "arm.name",
    "swapped": "arm.swapped",
}


def good_log(seed: int, rows: int = 300) -> list[dict]:
    rng = random.Random(seed)
    return [page(n, rng) for n in range(rows)]


def event(row: dict) -> dict:
    """Return a page as another system would log it."""
    return {
        "uuid": row["session_id"],
        "term": row["query_id"],
        "at": int(row["shown_at"].timestamp() * 1000),
        "items": [{"id": d, "hit": int(c)}
                  for d, c in zip(row["doc_ids"], row["clicks"], strict=True)],
        "device": row["segment"],
        "arm": {"name": row["bucket"], "swapped": row["swapped"]},
        "day": str(row["shown_at"].date()),
    }  # fmt: skip


def write_events(folder: Path, rows: list[dict], form: str = "parquet", files: int = 2) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(files):
        events = [event(row) for row in rows[n::files]]
        if form == "parquet":
            pq.write_table(pa.Table.from_pylist(events), folder / f"part-{n}.parquet")
        else:
            lines = "\n".join(map(json.dumps, events))
            (folder / f"part-{n}.json").write_text(lines + "\n")
    return folder


def mapped(columns: dict[str, str], **changed: str) -> list[str]:
    return [f"log.columns.{n}={json.dumps(text)}" for n, text in (columns | changed).items()]


def view_of(spark_engine, folder: Path, name: str) -> str:
    spark_engine.session.read.parquet(str(folder)).createOrReplaceTempView(name)
    return name


def from_table(spark_engine, root: Path, table: str, *changes: str, **options):
    """Build the groups of `log.table`; the default overlay's path gives way to it."""
    return build(spark_engine, root, Path("nowhere"), f"log.table={table}", *changes, **options)


@pytest.fixture
def plain(spark_engine, tmp_path):
    """Return a log and its groups, as files of the contract give them."""
    log = good_log(seed=1)
    build(spark_engine, tmp_path / "plain", write_parquet(tmp_path / "pages", log))
    return log, rows_of(tmp_path / "plain", "groups")


def test_a_table_with_expressions_gives_the_groups_of_the_contracts_files(
    spark_engine, tmp_path, plain
):
    log, groups = plain
    other_day = [row | {"shown_at": row["shown_at"] + dt.timedelta(days=1)} for row in log[:50]]
    repeated = [log[3] | {"shown_at": log[3]["shown_at"] + dt.timedelta(minutes=1)}, log[7]]
    events = write_events(tmp_path / "events", log + other_day + repeated)
    table = view_of(spark_engine, events, "events")
    outcome = from_table(spark_engine, tmp_path / "w", table, *mapped(COLUMNS))
    assert rows_of(tmp_path / "w", "groups") == groups
    assert outcome.manifest.counts["duplicates"] == 2
    assert from_table(spark_engine, tmp_path / "w", table, *mapped(COLUMNS)).skipped
    names = mapped(COLUMNS, shown_at="at")  # no timestamp: tasks filter the rows
    from_table(spark_engine, tmp_path / "numbers", table, *names)
    assert rows_of(tmp_path / "numbers", "groups") == groups


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_files_with_expressions_give_the_groups_of_the_contracts_files(
    spark_engine, tmp_path, plain, form
):
    log, groups = plain
    folder = write_events(tmp_path / "events" / f"dt={DATE}", log, form).parent
    build(spark_engine, tmp_path / "w", folder, f"log.format={form}", *mapped(COLUMNS))
    assert rows_of(tmp_path / "w", "groups") == groups


def test_a_query_joins_views_of_files_and_tables_into_pages(spark_engine, tmp_path, plain):
    log, groups = plain
    view_of(spark_engine, write_parquet(tmp_path / "log", log), "all_pages")
    clicks = [
        {"session": row["session_id"], "doc": doc}
        for row in log for doc, click in zip(row["doc_ids"], row["clicks"], strict=True) if click
    ]  # fmt: skip
    (tmp_path / "clicks").mkdir()
    lines = "\n".join(map(json.dumps, clicks)) + "\n"
    (tmp_path / "clicks" / f"{DATE:%Y%m%d}.json").write_text(lines)
    query = """
        SELECT p.* EXCEPT (clicks), transform(p.doc_ids, d -> array_contains(c.docs, d)) AS clicks
        FROM pages p LEFT JOIN
          (SELECT session, collect_set(doc) AS docs FROM clicked GROUP BY session) c
        ON p.session_id = c.session"""
    query = query.replace("p.* EXCEPT (clicks)", ", ".join(
        f"p.{n}" for n in log[0] if n != "clicks")).replace(
        "array_contains(c.docs", "array_contains(coalesce(c.docs, array())")  # fmt: skip
    views = {"pages": {"table": "all_pages"},
             "clicked": {"path": f"{tmp_path}/clicks/{{date:%Y%m%d}}.json", "format": "json",
                         "ddl": "session string, doc string"}}  # fmt: skip
    changes = [f"log.sql={json.dumps(query)}", f"log.views={json.dumps(views)}"]
    outcome = build(spark_engine, tmp_path / "w", Path("nowhere"), *changes)
    assert rows_of(tmp_path / "w", "groups") == groups
    assert not outcome.skipped
    assert build(spark_engine, tmp_path / "w", Path("nowhere"), *changes).skipped


def test_a_condition_with_the_date_chooses_the_rows(spark_engine, tmp_path, plain):
    log, groups = plain
    late = [row | {"shown_at": row["shown_at"] + dt.timedelta(days=1)} for row in log]
    folder = tmp_path / "events"
    write_events(folder / f"dt={DATE}", late)  # written on one day, shown on the next
    write_events(folder / f"dt={NEXT_DAY}", log[:20])
    table = view_of(spark_engine, folder, "by_day")
    from_table(spark_engine, tmp_path / "w", table, *mapped(COLUMNS), "log.where=dt = '{date}'")
    assert rows_of(tmp_path / "w", "groups") == groups
    outcome = build(spark_engine, tmp_path / "p", folder / "*" / "*.parquet", *mapped(COLUMNS),
                    "log.where=term <> 'q0'", date=NEXT_DAY)  # fmt: skip
    assert outcome.manifest.counts["read"] == sum(row["query_id"] != "q0" for row in log)


def test_broken_rows_of_a_table_are_quarantined_as_those_of_files(spark_engine, tmp_path):
    log, reasons, _ = broken_log(600, seed=4)
    view_of(spark_engine, write_parquet(tmp_path / "log", log), "broken")
    outcome = from_table(spark_engine, tmp_path / "w", "broken")
    assert reasons_in(outcome.manifest.counts) == reasons
    assert {row["source"] for row in rows_of(tmp_path / "w", "quarantine")} == {"broken"}
    build(spark_engine, tmp_path / "f", tmp_path / "log")
    assert rows_of(tmp_path / "w", "groups") == rows_of(tmp_path / "f", "groups")


def test_a_failed_cast_quarantines_its_row_also_in_ansi_mode(spark_engine, tmp_path):
    log = good_log(seed=5, rows=6)
    rows = [event(row) for row in log]
    texts = [str(row["at"]) for row in rows]
    texts[2], texts[4] = "soon", None
    rows = [row | {"at": text} for row, text in zip(rows, texts, strict=True)]
    (tmp_path / "log").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log" / "a.parquet")
    view_of(spark_engine, tmp_path / "log", "casts")
    columns = mapped(COLUMNS, shown_at="timestamp_millis(cast(at AS bigint))")
    before = spark_engine.session.conf.get("spark.sql.ansi.enabled")
    spark_engine.session.conf.set("spark.sql.ansi.enabled", "true")
    try:
        outcome = from_table(spark_engine, tmp_path / "w", "casts", *columns)
    finally:
        spark_engine.session.conf.set("spark.sql.ansi.enabled", before)
    assert reasons_in(outcome.manifest.counts) == {"bad_type": 1, "null_shown_at": 1}
    raw = {r["reason"]: r["raw"] for r in rows_of(tmp_path / "w", "quarantine")}
    assert json.loads(raw["bad_type"])["at"] == "soon"


def test_a_line_that_spark_cannot_read_is_quarantined_with_its_text(spark_engine, tmp_path, plain):
    log, groups = plain
    folder = write_events(tmp_path / "events", log, "json")
    with (folder / "part-0.json").open("a") as file:
        file.write("{broken\n")
    outcome = build(spark_engine, tmp_path / "w", folder, "log.format=json", *mapped(COLUMNS))
    assert reasons_in(outcome.manifest.counts) == {"bad_type": 1}
    assert "{broken" in rows_of(tmp_path / "w", "quarantine")[0]["raw"]
    assert rows_of(tmp_path / "w", "groups") == groups


RENAMED = {"session_id": "id", "query_id": "term", "shown_at": "at", "segment": "`device type`"}


def renamed(rows: list[dict]) -> list[dict]:
    names = {n: text.strip("`") for n, text in RENAMED.items()}
    return [{names.get(n, n): value for n, value in row.items()} for row in rows]


@pytest.mark.parametrize("form", ["parquet", "json", "csv"])
@pytest.mark.parametrize("layout", ["page", "impression"])
def test_other_names_numbers_and_positions_from_zero_in_every_format(
    spark_engine, tmp_path, plain, form, layout
):
    log, groups = plain
    rows = [row | {"shown_at": int(row["shown_at"].timestamp()),
                   "clicks": [int(c) for c in row["clicks"]]} for row in log]  # fmt: skip
    if layout == "impression":
        rows = [row | {"position": row["position"] - 1} for row in impressions_of(rows)]
    (tmp_path / "log").mkdir()
    table = pa.Table.from_pylist(renamed(rows))
    if form == "parquet":
        pq.write_table(table, tmp_path / "log" / "a.parquet")
    elif form == "json":
        text = "\n".join(map(json.dumps, renamed(rows)))
        (tmp_path / "log" / "a.json").write_text(text + "\n")
    else:
        flat = [{n: json.dumps(v) if isinstance(v, list) else v for n, v in row.items()}
                for row in renamed(rows)]  # fmt: skip
        pa.csv.write_csv(pa.Table.from_pylist(flat), tmp_path / "log" / "a.csv")
    changes = [f"log.format={form}", f"log.layout={layout}", "log.first_position=0"]
    build(spark_engine, tmp_path / "w", tmp_path / "log", *changes, *mapped(RENAMED))
    assert rows_of(tmp_path / "w", "groups") == groups
    if form == "parquet":
        view_of(spark_engine, tmp_path / "log", "renamed")
        from_table(spark_engine, tmp_path / "t", "renamed", *changes, *mapped(RENAMED))
        assert rows_of(tmp_path / "t", "groups") == groups


def test_positions_from_one_in_a_log_from_zero_are_a_gap_that_names_the_setting(
    spark_engine, tmp_path
):
    rows = [row | {"position": row["position"] - 1} for row in impressions_of(good_log(2, 20))]
    (tmp_path / "log").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log" / "a.parquet")
    with pytest.raises(UserError, match=r"position_gap 20 .*log\.first_position"):
        build(spark_engine, tmp_path / "w", tmp_path / "log", "log.layout=impression",
              "log.max_bad_fraction=0.1")  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["log.columns.session_id=uid"],
         ["log.columns.session_id = 'uid'", "has no column uid (did you mean uuid?)", "it has"]),
        (["log.columns.shown_at=timestamp_milis(at)"], ["log.columns.shown_at", "timestamp_milis"]),
        (["log.columns.doc_ids=transform(items, i -> i.key)"], ["log.columns.doc_ids", "key"]),
        (["log.columns.doc_ids=items"], ["array<struct<", "transform(items, i -> i.id)"]),
        (["log.columns.clicks=size(items)"], ["log.columns.clicks", "int", "an array of"]),
        (["log.columns.shown_at=arm"], ["log.columns.shown_at", "struct<", "an epoch number"]),
        (["log.columns.session_id=count(uuid)"], ["log.columns.session_id", "log.sql"]),
        (["log.columns.session_id=uuid uuid uuid"], ["log.columns.session_id", "'uuid'"]),
        (["log.columns.sesion_id=uuid"], ["log.columns.sesion_id", "did you mean session_id?"]),
        (["log.columns.session_id=null"], ["log.columns.session_id"]),
        (["log.where=dy = '{date}'"], ["log.where", "dy", "did you mean day?"]),
        (["log.table=evnts"], ["log.table = evnts", "did you mean events?"]),
        (["log.table=a b"], ["log.table = a b"]),
        (["log.table=nowhere.none"], ["log.table = nowhere.none"]),
        (["log.sql=SELECT uuid FROM evnts"], ["log.sql", "evnts"]),
        (["log.sql=SELECT uid FROM events"], ["log.sql", "uid"]),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_names_what_there_is(spark_engine, tmp_path, changes, words):
    view_of(spark_engine, write_events(tmp_path / "events", good_log(3, 5)), "events")
    with pytest.raises(UserError) as error:
        from_table(spark_engine, tmp_path / "w", "events", *mapped(COLUMNS), *changes)
    line = str(error.value)
    assert error.value.exit_code == 2
    assert "\n" not in line
    assert "SQLSTATE" not in line
    assert all(word in line for word in words), line


def test_a_table_of_the_contract_without_a_required_column_is_one_line(spark_engine, tmp_path):
    view_of(spark_engine, write_events(tmp_path / "events", good_log(3, 5)), "events")
    with pytest.raises(UserError, match=r"events has no column session_id.*log\.columns"):
        from_table(spark_engine, tmp_path / "w", "events")


@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_file_without_a_mapped_column_is_one_line(spark_engine, tmp_path, form):
    folder = write_events(tmp_path / "events", good_log(3, 5), form)
    with pytest.raises(UserError, match=r"query_id = 'trm': .*did you mean term\?\); it has uuid"):
        build(spark_engine, tmp_path / "w", folder, "log.columns.query_id=trm",
              "log.columns.session_id=uuid", f"log.format={form}")  # fmt: skip


def test_groups_of_a_table_without_a_version_have_the_fingerprint_of_their_content(
    spark_engine, tmp_path, plain
):
    log, groups = plain
    rows = [tuple(row.values()) for row in log + log[:5]]

    def built(chosen: list) -> object:
        types = (
            "session_id string, query_id string, shown_at timestamp, doc_ids array<string>, "
            "clicks array<boolean>, segment string, bucket string, swapped boolean"
        )
        spark_engine.session.createDataFrame(chosen, types).createOrReplaceTempView("rows_only")
        return from_table(spark_engine, tmp_path / "w", "rows_only")

    first = built(rows)
    assert rows_of(tmp_path / "w", "groups") == groups
    assert first.manifest.counts["duplicates"] == 5
    again = built(rows[::-1])
    assert not again.skipped
    assert again.manifest.fingerprint == first.manifest.fingerprint
    assert built(rows[:50]).manifest.fingerprint != first.manifest.fingerprint


def test_an_empty_table_has_no_pages(spark_engine, tmp_path):
    view_of(spark_engine, write_events(tmp_path / "events", good_log(3, 5)), "events")
    outcome = from_table(
        spark_engine, tmp_path / "w", "events", *mapped(COLUMNS), "log.where=1 = 0 -- {date}"
    )
    assert outcome.manifest.counts["pages"] == 0
    assert rows_of(tmp_path / "w", "groups") == []
