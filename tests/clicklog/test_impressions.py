"""Impressions become the pages that Spark's own grouping gives, however they are split."""

from __future__ import annotations

import datetime as dt
import json
import random

import pyarrow as pa
import pytest

from tests.support.logs import NOON
from tests.support.spark_impressions import assemble_pages
from ulr.clicklog.impressions import read_pages, send_fragments
from ulr.engine.blocks import open_table
from ulr.engine.spark.session import spark_schema
from ulr.warehouse.schema import impression_schema, reading

SOURCES = ["b.parquet", "a.parquet", "c/a.parquet"]


def random_rows(rng: random.Random, sessions: int) -> list[dict]:
    """Return rows of sessions; one in four sessions has a random defect, and rows may repeat."""
    rows = []
    for n in range(sessions):
        context = {"query_id": f"q{rng.randint(0, 3)}", "segment": rng.choice([None, "mobile"])}
        context |= {"bucket": rng.choice([None, "1:2"]), "swapped": rng.choice([None, True])}
        for k in range(1, rng.randint(1, 5) + 1):
            row = {"session_id": f"s{n}", "doc_id": f"d{k}é", "position": k, **context,
                   "clicked": rng.random() < 0.4, "source": rng.choice(SOURCES),
                   "shown_at": NOON + dt.timedelta(microseconds=rng.randint(0, 9999))}  # fmt: skip
            if n % 4 == 0 and rng.random() < 0.4:
                row |= rng.choice([
                    {"position": None}, {"position": rng.randint(0, 4)}, {"position": -1},
                    {"doc_id": rng.choice([None, "", "d1"])}, {"clicked": None}, {"session_id": ""},
                    {"session_id": None}, {"query_id": rng.choice(["x", None, ""])},
                    {"segment": "tablet"}, {"bucket": ""}, {"swapped": False}, {"shown_at": None},
                    {"problem": "bad_type", "raw": f"text {rng.randint(0, 9)}"},
                ])  # fmt: skip
            rows += [row] * (2 if rng.random() < 0.05 else 1)
    rng.shuffle(rows)
    return [{"problem": None, "raw": None, "repeats": 0, **row} for row in rows]


def assembled(rows: list[dict], tasks: int, batches: int, parts: int) -> list[dict]:
    """Return the pages of rows that are split over map tasks, batches and reducers' parts."""
    schema = reading(impression_schema, inside=True)
    blocks = []
    for task in range(tasks):
        read = [pa.RecordBatch.from_pylist(rows[task::tasks][b::batches], schema=schema)
                for b in range(batches)]  # fmt: skip
        blocks += send_fragments(iter(()), read=lambda _, read=read: iter(read), parts=parts)
    return [page for batch in read_pages(iter(blocks)) for page in batch.to_pylist()]


def in_one_order(pages: list[dict]) -> list[str]:
    return sorted(json.dumps(page, default=dt.datetime.isoformat, sort_keys=True) for page in pages)


@pytest.mark.parametrize("split", [(1, 1, 1), (2, 3, 4), (5, 2, 1)])
def test_pages_are_those_of_sparks_grouping(spark, split):
    rows = random_rows(random.Random(sum(split)), 400)
    table = pa.Table.from_pylist(rows, schema=reading(impression_schema))
    frame = spark.createDataFrame(table.to_pylist(), spark_schema(table.schema))
    expected = [row.asDict() for row in assemble_pages(frame).collect()]
    for row in expected:  # Spark gives local times without a zone
        row["shown_at"] = row["shown_at"] and row["shown_at"].astimezone(dt.timezone.utc)
    pages = assembled(rows, *split)
    assert in_one_order(pages) == in_one_order(expected)


def test_a_session_is_one_fragment_of_a_batch_and_in_one_part():
    rows = random_rows(random.Random(0), 50)
    rows = [r | {"session_id": r["session_id"] or "s", "problem": None} for r in rows]
    schema = reading(impression_schema, inside=True)
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    blocks = list(send_fragments(iter(()), read=lambda _: iter([batch]), parts=7))
    part_of: dict[str, int] = {}
    for part, _, content in blocks:
        for session in open_table(content)["session_id"].to_pylist():
            assert part_of.setdefault(session, part) == part
    assert len(part_of) == len({r["session_id"] for r in rows})
    assert len(set(part_of.values())) > 1
