"""Seconds of the stage `propensities` on pages whose rankings do not repeat, beside two floors.

    python -m tests.bench.propensities [--pages MILLIONS] [--days DAYS] [--quick]
                                       [--engines local,spark]

count   a new date is tallied and the curves are estimated, on each engine
night   the same, with the tallies of DAYS - 1 earlier dates of equal size in the warehouse
DuckDB  the same counts of clicks, co-clicks and documents from the same files, without estimates
scan    one process reads the columns of the count with pyarrow, on all cores

Goals of the first engine: the count at most 2 s for 4 million pages, and a night at most twice the
count.
"""

from __future__ import annotations

import argparse
import datetime as dt
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from tests.bench.engines import bench_engine
from ulr.config.load import load_settings
from ulr.engine.interface import Engine
from ulr.propensity.stage import build_propensities
from ulr.warehouse.schema import groups_schema
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

FILES = 8
POSITIONS = 10
DOCUMENTS = 20  # of a query
IN_EXPERIMENT = 0.1
GOAL_S = 2.0
GOAL_NIGHT = 2.0
COLUMNS = ["query_id", "segment", "bucket", "swapped", "doc_ids", "patterns", "counts"]
FIRST = dt.date(2026, 1, 1)


def distinct_pages(rng: np.random.Generator, pages: int, file: int) -> pa.Table:
    """Return a file's groups of one page each.

    Half of the traffic is uniform over the queries, half proportional to 1 / i for query i.
    """
    queries = max(pages // 10, 2)
    frequent = np.exp(rng.random(pages) * np.log(queries)).astype(np.int64)
    query = np.where(rng.random(pages) < 0.5, frequent, rng.integers(0, queries, pages))
    query = np.sort(query) * FILES + file
    order = np.argsort(rng.random((pages, DOCUMENTS)), axis=1)[:, :POSITIONS]
    document = (query[:, None] * DOCUMENTS + order).reshape(-1)
    theta = 1 / np.arange(1, POSITIONS + 1)
    relevance = (document.reshape(pages, -1) * 2_654_435_761 % 97) / 97
    clicks = rng.random((pages, POSITIONS)) < 0.5 * theta * relevance
    bucket = rng.integers(2, POSITIONS + 1, pages)
    inside = rng.random(pages) < IN_EXPERIMENT
    names = pa.array([None, None, *(f"1:{k}" for k in range(2, POSITIONS + 1))], pa.string())
    offsets = np.arange(pages + 1, dtype=np.int32)
    columns = {
        "query_id": pa.array(query).cast(pa.string()),
        "segment": pa.array(["desktop", "mobile"]).take(pa.array(rng.integers(0, 2, pages))),
        "bucket": names.take(pa.array(np.where(inside, bucket, 0))),
        "swapped": pa.array(rng.random(pages) < 0.5, mask=~inside),
        "ranking": pa.array(rng.integers(-(2**62), 2**62, pages)),
        "doc_ids": pa.ListArray.from_arrays(
            pa.array(offsets * POSITIONS), pa.array(document).cast(pa.string())
        ),
        "patterns": pa.ListArray.from_arrays(
            pa.array(offsets), pa.array((clicks << np.arange(POSITIONS)).sum(axis=1))
        ),
        "counts": pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.ones(pages, np.int64))),
    }
    return pa.table(columns, schema=groups_schema)


def publish_day(warehouse: Warehouse, date: dt.date, pages: int) -> None:
    """Publish the groups of a date."""
    rng = np.random.default_rng(date.toordinal())
    with warehouse.writing("groups", f"dt={date}", "bench") as draft:
        for file in range(FILES):
            table = distinct_pages(rng, pages // FILES, file)
            Storage(draft.url).write_table(table, f"part-{file:05d}.parquet")
        draft.publish({"pages": pages})


ARMS = """
    SELECT segment, bucket, swapped, k, l, sum(n) FROM (
        SELECT segment, bucket, swapped, unnest(patterns) AS p, unnest(counts) AS n FROM '{files}'
    ), range(1, 11) a(k), range(1, 11) b(l)
    WHERE k <= l AND (p >> (k - 1)::INT & 1) = 1 AND (p >> (l - 1)::INT & 1) = 1
    GROUP BY ALL
"""
DOCUMENTS_AT_1_AND_K = """
    SELECT segment, bucket, query_id, doc_ids[k] AS doc, k,
           sum(list_sum(counts)) AS impressions,
           sum(list_sum([n * (p >> (k - 1)::INT & 1) FOR p, i IN patterns]))
    FROM (SELECT *, counts[1] AS n, unnest([1, split_part(bucket, ':', 2)::INT]) AS k
          FROM '{files}' WHERE starts_with(bucket, '1:'))
    GROUP BY ALL
"""


def duckdb_counts(files: str) -> None:
    """Count clicks and co-clicks by arm, and clicks and impressions of documents at 1 and k."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE arms AS {ARMS.format(files=files)}")
    connection.execute(f"CREATE TABLE shown AS {DOCUMENTS_AT_1_AND_K.format(files=files)}")


def scan(files: Sequence[str]) -> None:
    for _ in ds.dataset(list(files)).to_batches(columns=COLUMNS):
        pass


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(pages: int, days: int, rounds: int, names: Sequence[str]) -> None:
    settings = load_settings(None, [])
    engines = {name: bench_engine(name) for name in names}
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Warehouse(folder)
        dates = [FIRST + dt.timedelta(days=n) for n in range(days)]
        for date in dates:
            publish_day(warehouse, date, pages)
        new = f"dt={dates[-1]}"
        files = warehouse.files("groups", new)

        def stage(engine: Engine, window: Sequence[dt.date]) -> None:
            for table in ("swap_counts", "swap_documents"):
                warehouse.storage.delete(table, new)
            build_propensities(engine, warehouse, window, settings.propensities, force=True)

        works = {}
        for name, engine in engines.items():
            works[f"count {name}"] = partial(stage, engine, dates[-1:])
            works[f"night {name}"] = partial(stage, engine, dates)
        works |= {
            "DuckDB": lambda: duckdb_counts(files[0].rpartition("/")[0] + "/*.parquet"),
            "scan": lambda: scan(files),
        }
        times = {
            name: [seconds(work) for _ in range(1 + rounds)][1:] for name, work in works.items()
        }
    best = {name: min(values) for name, values in times.items()}
    print(f"{pages:,} pages a day, {days} days, best of {rounds}")
    for name, value in best.items():
        print(f"  {name:12} {value:6.2f} s")
    count, night = (best[f"{name} {names[0]}"] for name in ("count", "night"))
    print(f"count {count:.2f} s (goal: at most {GOAL_S:.0f} s for 4 million pages)")
    print(f"count / DuckDB = {count / best['DuckDB']:.2f}, ", end="")
    print(f"count / scan = {count / best['scan']:.2f}")
    print(f"night / count = {night / count:.2f} (goal: at most {GOAL_NIGHT:.0f})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--pages", type=float, default=4.0, help="millions a day")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--quick", action="store_true", help="100,000 pages, 3 days, one round")
    parser.add_argument("--engines", default="local,spark", help="separated by commas")
    options = parser.parse_args()
    chosen = options.engines.split(",")
    if options.quick:
        main(100_000, 3, 1, chosen)
    else:
        main(int(options.pages * 1e6), options.days, 3, chosen)
