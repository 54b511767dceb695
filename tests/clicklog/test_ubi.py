"""Exports of User Behavior Insights give the groups of the same pages in files of the contract."""

from __future__ import annotations

import datetime as dt
import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.logs import DATE, build, page, rows_of, write_parquet
from ulr.cli.main import main
from ulr.clicklog.quarantine import reasons_in
from ulr.config.load import load_settings
from ulr.errors import UserError
from ulr.groups.stage import build_groups
from ulr.warehouse.schema import graded, page_schema
from ulr.warehouse.tables import Warehouse

NEXT_DAY = DATE + dt.timedelta(days=1)
GAINS = {"click": 1, "add_to_cart": 3, "purchase": 10}
ACTIONS = ["click", "click", "click_through", "add_to_cart", "purchase", "view", "impression"]


def build_ubi(spark_engine, root: Path, folder: Path, *changes: str, conf=("ubi",), date=DATE):
    views = [f"log.views.{n}.path={folder}/{n}*.json" for n in ("ubi_queries", "ubi_events")]
    defaults = ["groups.partitions=3", "log.min_pages=0", "log.max_bad_fraction=1"]
    chosen = load_settings(list(conf), [*views, *defaults, *changes])
    return build_groups(
        spark_engine, Warehouse(str(root)), date, log=chosen.log, groups=chosen.groups
    )


def write_lines(path: Path, documents: list[dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(d) + "\n" for d in documents))


def query_of(row: dict, rng: random.Random) -> dict:
    """Return a page as a document of ubi_queries, its fields in one of their forms."""
    at = row["shown_at"]
    local = at.astimezone(dt.timezone(dt.timedelta(hours=2)))
    return {
        "application": row["segment"],
        "query_id": row["session_id"],
        "client_id": "c1",
        "user_query": row["query_id"],
        "timestamp": rng.choice([
            at.isoformat(), at.strftime("%Y-%m-%dT%H:%M:%S.000Z"), local.isoformat(),
            at.strftime("%Y-%m-%dT%H:%M:%S"), int(at.timestamp() * 1000),
            str(int(at.timestamp() * 1000)),
        ]),
        "query_attributes": {"page": 1},
    } | rng.choice([
        {"query_response_hit_ids": row["doc_ids"]},
        {"doc_ids": ",".join(row["doc_ids"])},  # Solr
    ])  # fmt: skip


def event_of(query: str | None, name: str, document: object, **others: object) -> dict:
    return {
        "action_name": name,
        "query_id": query,
        "timestamp": NEXT_DAY.isoformat(),
        "event_attributes": {"object": {"object_id": document, "object_id_field": "sku"},
                             "position": {"ordinal": 1}},
    } | others  # fmt: skip


def world(seed: int, count: int = 300) -> tuple[list[dict], list[dict], list[dict]]:
    """Return queries, events, and the pages that they mean: by plain loops."""
    rng = random.Random(seed)
    queries, events, pages = [], [], []
    for number in range(count):
        row = page(number, rng) | {"bucket": None, "swapped": None}
        row["doc_ids"] = [str(rng.randrange(10**6)) for _ in row["doc_ids"]]
        query = query_of(row, rng)
        done = {doc: set() for doc in row["doc_ids"]}
        for _ in range(rng.choice([0, 0, 1, 3, 6])):
            doc, name = rng.choice(row["doc_ids"]), rng.choice(ACTIONS)
            done[doc].add("click" if name == "click_through" else name)
            shown = int(doc) if rng.random() < 0.3 else doc
            events += [event_of(row["session_id"], name, shown)] * rng.choice([1, 1, 2])
        broken = rng.random()
        if broken < 0.05:
            query |= {"query_response_hit_ids": [], "doc_ids": ""}
        elif broken < 0.10:
            query = {
                n: v for n, v in query.items() if n not in ("query_response_hit_ids", "doc_ids")
            }
        elif broken < 0.15:
            query["user_query"] = rng.choice([None, "", "  "])
        else:
            row["clicks"] = ["click" in done[d] for d in row["doc_ids"]]
            row["feedback"] = [json.dumps(sorted(done[d] & GAINS.keys())) for d in row["doc_ids"]]
            pages.append(row)
        queries.append(query)
    events += [
        event_of(None, "click", pages[0]["doc_ids"][0]),
        event_of("nowhere", "click", pages[0]["doc_ids"][0]),
        event_of(pages[0]["session_id"], "click", "not shown"),
        event_of(pages[1]["session_id"], "click", None),
        event_of(pages[1]["session_id"], "page_exit", None, event_attributes={"position": {}}),
        {"action_name": "click", "query_id": pages[2]["session_id"]},
        {"query_id": pages[2]["session_id"]},
    ]
    rng.shuffle(events)
    return queries, events, pages


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.all)])
def test_queries_and_events_give_the_groups_of_their_pages(spark_engine, tmp_path, seed):
    queries, events, pages = world(seed)
    late = [q | {"timestamp": f"{NEXT_DAY}T00:00:00Z"} for q in queries[:40]]
    repeated = [q for q in queries[-60:] if q.get("query_response_hit_ids") and q["user_query"]]
    write_lines(tmp_path / "ubi_queries-1.json", queries + repeated[:2])
    write_lines(tmp_path / "ubi_queries-2.json", [q | {"query_id": f"late {n}"}
                                                  for n, q in enumerate(late)])  # fmt: skip
    write_lines(tmp_path / "ubi_events.json", events)
    outcome = build_ubi(spark_engine, tmp_path / "w", tmp_path)
    build(spark_engine, tmp_path / "pages", write_parquet(tmp_path / "contract", pages))
    assert rows_of(tmp_path / "w", "groups") == rows_of(tmp_path / "pages", "groups")
    counts = outcome.manifest.counts
    assert (counts["pages"], counts["duplicates"]) == (len(pages), 2)
    assert build_ubi(spark_engine, tmp_path / "w", tmp_path).skipped


def test_graded_feedback_gives_the_groups_of_pages_with_feedback(spark_engine, tmp_path):
    queries, events, pages = world(seed=3)
    write_lines(tmp_path / "ubi_queries.json", queries)
    write_lines(tmp_path / "ubi_events.json", events)
    build_ubi(spark_engine, tmp_path / "w", tmp_path, conf=("ubi", "ubi-feedback"))
    (tmp_path / "contract").mkdir()
    pq.write_table(pa.Table.from_pylist(pages, schema=graded(page_schema)),
                   tmp_path / "contract" / "log.parquet")  # fmt: skip
    build(
        spark_engine, tmp_path / "pages", tmp_path / "contract", f"log.feedback={json.dumps(GAINS)}"
    )
    assert rows_of(tmp_path / "w", "groups") == rows_of(tmp_path / "pages", "groups")


def test_a_line_that_cannot_be_read_is_quarantined_with_its_text(spark_engine, tmp_path):
    queries, events, pages = world(seed=4, count=40)
    write_lines(tmp_path / "ubi_queries.json", queries)
    write_lines(tmp_path / "ubi_events.json", events)
    with (tmp_path / "ubi_queries.json").open("a") as file:
        file.write('{"query_id": "cut\n')
    with (tmp_path / "ubi_events.json").open("a") as file:
        file.write(json.dumps({"query_id": "q", "event_attributes": "none"}) + "\n")
    outcome = build_ubi(spark_engine, tmp_path / "w", tmp_path)
    assert reasons_in(outcome.manifest.counts) == {"bad_type": 2}
    raw = {row["raw"] for row in rows_of(tmp_path / "w", "quarantine")}
    assert '{"query_id": "cut' in raw
    assert outcome.manifest.counts["pages"] == len(pages)


def test_tables_take_the_place_of_exports(spark_engine, tmp_path):
    queries, events, _ = world(seed=5, count=60)
    for name, documents in (("ubi_queries", queries), ("ubi_events", events)):
        write_lines(tmp_path / f"{name}.json", documents)
        ddl = load_settings("ubi").log.views[name].ddl
        spark_engine.session.read.schema(ddl).json(
            f"{tmp_path}/{name}.json"
        ).createOrReplaceTempView(f"my_{name}")
    build_ubi(spark_engine, tmp_path / "files", tmp_path)
    tables = [f"log.views.{n}.table=my_{n}" for n in ("ubi_queries", "ubi_events")]
    build_ubi(spark_engine, tmp_path / "tables", tmp_path, *tables)
    assert rows_of(tmp_path / "tables", "groups") == rows_of(tmp_path / "files", "groups")


def test_a_missing_export_is_one_line_that_names_the_setting(spark_engine, tmp_path):
    write_lines(tmp_path / "ubi_queries.json", [])
    with pytest.raises(UserError, match=r"log\.views\.ubi_events\.path = .*ubi_events") as error:
        build_ubi(spark_engine, tmp_path / "w", tmp_path)
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def sample(spark_engine, tmp_path_factory):
    """Return the sample of the documentation, as UBI and as pages."""
    root = tmp_path_factory.mktemp("sample")
    size = {"simulate.days": 1, "simulate.pages_per_day": 60_000, "simulate.queries": 100,
            "simulate.positions": 6, "simulate.pages_per_file": 25_000, "simulate.features": 8,
            "simulate.swaps": "[{kind: single, fraction: 0.8}]",
            "simulate.segments": "[{name: shop, fraction: 1, eta: 1}]",
            "simulate.feedback": "{add_to_cart: 0.5}"}  # fmt: skip
    for layout in ("ubi", "page"):
        changes = size | {"simulate.path": f"{root}/{layout}", "simulate.layout": layout}
        flags = [f for key, value in changes.items() for f in ("--set", f"{key}={value}")]
        assert main(["simulate", *flags]) == 0
    return root


@pytest.mark.all
def test_a_simulated_export_has_the_pages_of_the_simulated_log(spark_engine, sample, tmp_path):
    log = sample / "ubi" / "log"
    queries, events = ([f"log.views.ubi_{n}.path={log}/ubi_{n}/dt={{date}}"]
                       for n in ("queries", "events"))  # fmt: skip
    outcome = build_ubi(spark_engine, tmp_path / "ubi", log, *queries, *events)
    pages = pa.concat_tables(map(pq.read_table, sorted((sample / "page").rglob("log/*/*.parquet"))))
    plain = pages.drop_columns(["feedback", "bucket", "swapped"])
    rows = [row | {"bucket": None, "swapped": None} for row in plain.to_pylist()]
    build(spark_engine, tmp_path / "pages", write_parquet(tmp_path / "contract", rows))
    assert rows_of(tmp_path / "ubi", "groups") == rows_of(tmp_path / "pages", "groups")
    assert outcome.manifest.counts["pages"] == 60_000
    first = (log / "ubi_events" / f"dt={DATE}" / "part-00000.json").read_text().splitlines()
    assert {json.loads(line)["action_name"] for line in first} == {"click", "add_to_cart"}


@pytest.mark.all
def test_the_curve_of_a_simulated_export_is_the_simulators(spark_engine, sample, tmp_path):
    flags = ["--conf", "ubi", "--date", str(DATE)]
    log = sample / "ubi" / "log"
    changes = {"warehouse.path": tmp_path / "w", "groups.partitions": 2,
               "log.views.ubi_queries.path": f"{log}/ubi_queries/dt={{date}}",
               "log.views.ubi_events.path": f"{log}/ubi_events/dt={{date}}"}  # fmt: skip
    flags += [f for key, value in changes.items() for f in ("--set", f"{key}={value}")]
    assert main(["groups", *flags]) == 0
    assert main(["propensities", *flags]) == 0
    rows = Warehouse(str(tmp_path / "w")).read("propensities").to_pylist()
    rows = sorted((r for r in rows if r["segment"] is None), key=lambda r: r["position"])
    truth = 1 / np.arange(1, 7)
    theta = np.array([r["theta"] for r in rows])
    error = np.array([r["standard_error"] for r in rows])
    assert {r["source"] for r in rows} == {"estimated"}
    assert (np.abs(theta - truth) <= 4 * error + 1e-9).all()
    assert (np.abs(theta / truth - 1) < 0.1).all()
