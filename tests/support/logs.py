"""Click logs for tests: good and broken pages in every format, and groups built from them."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ulr.config.load import load_settings
from ulr.groups.stage import build_groups
from ulr.warehouse.schema import page_schema
from ulr.warehouse.tables import Warehouse

DATE = dt.date(2026, 1, 1)
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)


def page(number: int, rng: random.Random, date: dt.date = DATE) -> dict:
    """Return a random good page."""
    length = rng.randint(1, 6)
    docs = rng.sample([f"d{i}" for i in range(8)], length)
    bucket = rng.choice([None, None, "1:2"]) if length > 1 else None
    return {
        "session_id": f"s{number}",
        "query_id": f"q{int(rng.expovariate(0.5))}",
        "shown_at": dt.datetime(date.year, date.month, date.day, 12, tzinfo=dt.timezone.utc),
        "doc_ids": docs,
        "clicks": [rng.random() < 0.3 for _ in docs],
        "segment": rng.choice([None, "mobile"]),
        "bucket": bucket,
        "swapped": rng.random() < 0.5 if bucket else None,
    }


BREAK = {
    "null_session_id": {"session_id": None},
    "null_query_id": {"query_id": ""},
    "null_shown_at": {"shown_at": None},
    "null_doc_ids": {"doc_ids": None},
    "null_clicks": {"clicks": None},
    "length_mismatch": {"doc_ids": ["a", "b"], "clicks": [True]},
    "empty_page": {"doc_ids": [], "clicks": []},
    "null_doc_id": {"doc_ids": ["a", None], "clicks": [True, False]},
    "null_click": {"doc_ids": ["a", "b"], "clicks": [None, False]},
    "duplicate_document": {"doc_ids": ["a", "a"], "clicks": [True, False]},
    "bad_bucket": {"bucket": "1-5", "swapped": True},
    "bucket_past_end": {"bucket": "1:99", "swapped": True},
    "bucket_without_arm": {"bucket": "1:2", "swapped": None, "doc_ids": ["a", "b"],
                           "clicks": [True, False]},
    "swap_without_bucket": {"bucket": None, "swapped": True},
}  # fmt: skip


def broken_log(rows: int, seed: int) -> tuple[list[dict], Counter, list[dict]]:
    """Return rows in random order, the number of rows per broken rule, and the good pages."""
    rng = random.Random(seed)
    log, reasons, good = [], Counter(), []
    for number in range(rows):
        row = page(number, rng)
        if rng.random() < 0.1:
            reason = rng.choice(sorted(BREAK))
            log.append(row | BREAK[reason])
            reasons[reason] += 1
        else:
            log.append(row)
            good.append(row)
            if rng.random() < 0.05:  # the same page delivered twice
                log.append(dict(row))
            if rng.random() < 0.02:  # a later page under the same session id
                later = page(number, rng) | {"shown_at": NOON + dt.timedelta(minutes=5)}
                log.append(later)
    rng.shuffle(log)
    return log, reasons, good


def write_parquet(folder: Path, rows: list[dict], files: int = 3) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(files):
        table = pa.Table.from_pylist(rows[n::files], schema=page_schema)
        pq.write_table(table, folder / f"part-{n}.parquet", row_group_size=700)
    return folder


def settings(log: Path, *changes: str):
    defaults = ["groups.partitions=3", "log.max_bad_fraction=1", "log.min_pages=0"]
    return load_settings(None, [f"log.path={log}", *defaults, *changes])


def build(engine, root: Path, log: Path, *changes: str, date: dt.date = DATE, force: bool = False):
    chosen = settings(log, *changes)
    return build_groups(
        engine,
        Warehouse(str(root)),
        date,
        log=chosen.log,
        groups=chosen.groups,
        force=force,
    )


def rows_of(root: Path, table: str, date: dt.date = DATE) -> list[dict]:
    files = Warehouse(str(root)).files(table, f"dt={date}")
    return [row for f in files for row in pq.read_table(f).to_pylist()]


def write_json(folder: Path, rows: list[dict]) -> Path:
    folder.mkdir(parents=True)
    lines = [json.dumps(row, default=lambda t: t.isoformat()) for row in rows]
    (folder / "log.json").write_text("\n".join(lines) + "\n")
    return folder


def write_csv(folder: Path, rows: list[dict]) -> Path:
    folder.mkdir(parents=True)
    flat = [
        {n: json.dumps(v) if isinstance(v, list) else None if v is None else
            v.isoformat() if isinstance(v, dt.datetime) else str(v).lower()
            if isinstance(v, bool) else v for n, v in row.items()}
        for row in rows
    ]  # fmt: skip
    schema = pa.schema([(n, pa.string()) for n in rows[0]])
    pa.csv.write_csv(pa.Table.from_pylist(flat, schema=schema), folder / "log.csv")
    return folder
