"""`groups` and DuckDB: the same table from the same files, both on 2 cores, in one run.

    python -m tests.bench.groups [--pages N] [--skew] [--work FOLDER]

"same contract": DuckDB also drops repeated sessions and invalid pages, as `groups` does. "bare":
DuckDB only aggregates. Both write Parquet with the documents of each ranking. Runs alternate and
the best of each counts, because the machine may be busy.
"""

from __future__ import annotations

import argparse
import datetime as dt
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

from tests.bench.measure import PeakMemory
from ulr.clicklog.files import find_log
from ulr.clicklog.pages import open_pages
from ulr.config.load import load_settings
from ulr.config.settings import Settings
from ulr.engine.session import start_session
from ulr.groups.tasks import write_groups
from ulr.simulate.stage import simulate_log

DATE = dt.date(2026, 1, 1)
ROUNDS = 4
CORES = 2

BARE = """
COPY (
  SELECT query_id, segment, bucket, swapped, hash(doc_ids) AS ranking,
         any_value(doc_ids) AS doc_ids, histogram(clicks) AS patterns
  FROM {log} GROUP BY query_id, segment, bucket, swapped, ranking
) TO '{out}' (COMPRESSION zstd)
"""

# The rules of the contract that a log of pages can violate, and one page per session.
SAME_CONTRACT = """
CREATE OR REPLACE TEMP TABLE repeated AS
  SELECT session_id FROM {log} GROUP BY session_id HAVING count(*) > 1;
COPY (
  WITH valid AS (
    SELECT * FROM {log}
    WHERE session_id <> '' AND query_id <> '' AND shown_at IS NOT NULL
      AND len(doc_ids) = len(clicks) AND len(doc_ids) > 0
      AND len(doc_ids) = list_unique(doc_ids)
      AND (bucket IS NULL OR (swapped IS NOT NULL
           AND regexp_full_match(bucket, '[1-9][0-9]*(,[1-9][0-9]*)?:[1-9][0-9]*(,[1-9][0-9]*)?')
           AND list_max(regexp_extract_all(bucket, '[0-9]+')::INT[]) <= len(doc_ids)))
  ), once AS (
    SELECT * FROM valid ANTI JOIN repeated USING (session_id)
    UNION ALL
    SELECT * FROM valid SEMI JOIN repeated USING (session_id)
    QUALIFY row_number() OVER (PARTITION BY session_id ORDER BY shown_at) = 1
  )
  SELECT query_id, segment, bucket, swapped, hash(doc_ids) AS ranking,
         any_value(doc_ids) AS doc_ids, histogram(clicks) AS patterns
  FROM once GROUP BY query_id, segment, bucket, swapped, ranking
) TO '{out}' (COMPRESSION zstd)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=4_000_000)
    parser.add_argument(
        "--skew", action="store_true", help="also a log with one query that has 30%% of the pages"
    )
    parser.add_argument("--work", type=Path, help="a folder to keep the logs in")
    args = parser.parse_args()
    work = args.work or Path(tempfile.mkdtemp(prefix="ulr-bench-"))
    spark = start_session("bench", load_settings(None, [f"spark.master=local[{CORES}]"]).spark)
    cases = [(args.pages // 4, 0.0), (args.pages, 0.0)] + [(args.pages, 0.3)] * args.skew
    results = [_case(spark, work, pages, hot) for pages, hot in cases]
    _print(results)
    spark.stop()
    if not args.work:
        shutil.rmtree(work)


def _settings(path: Path, pages: int, hot: float) -> Settings:
    return load_settings(
        None,
        [
            f"simulate.path={path}",
            "simulate.days=1",
            f"simulate.start={DATE}",
            f"simulate.pages_per_day={pages}",
            f"simulate.pages_per_file={pages // 8}",
            "simulate.queries=50000",
            f"simulate.hot_query_fraction={hot}",
            "simulate.swaps=[{kind: single, fraction: 0.5}]",
            f"log.path={path}/log",
        ],
    )


def _case(spark, work: Path, pages: int, hot: float) -> dict[str, float]:
    path = work / f"{pages}-{hot}"
    settings = _settings(path, pages, hot)
    if not path.exists():
        simulate_log(spark, settings.simulate)
    log = f"read_parquet('{path}/log/*/*.parquet')"
    con = duckdb.connect()
    con.execute(f"SET threads={CORES}")
    runs: dict[str, Callable[[], object]] = {
        "ulr": lambda: _ulr(spark, settings, work),
        "same": lambda: con.execute(SAME_CONTRACT.format(log=log, out=work / "same.parquet")),
        "bare": lambda: con.execute(BARE.format(log=log, out=work / "bare.parquet")),
    }
    best = dict.fromkeys(runs, float("inf"))
    peak = 0.0
    for turn in range(ROUNDS):
        for name, run in runs.items():
            watch = PeakMemory() if name == "ulr" and turn else None
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
            peak = max(peak, watch.stop() if watch else 0.0)
    counts = con.execute(f"SELECT count(*) FROM '{work}/same.parquet'").fetchone()
    files = list((work / "groups").glob("*.parquet"))
    ours = con.execute(f"SELECT count(*) FROM read_parquet({[str(f) for f in files]})").fetchone()
    if counts != ours:
        raise SystemExit(f"the tables differ: DuckDB has {counts} groups, ulr {ours}")
    size = sum(f.stat().st_size for f in path.glob("log/*/*"))
    return {"pages": pages, "hot": hot, "peak": peak, "groups": ours[0], "log": size,
            "size": sum(f.stat().st_size for f in files), **best}  # fmt: skip


def _ulr(spark, settings: Settings, work: Path) -> None:
    source = open_pages(spark, find_log(settings.log.path, DATE), settings.log)
    write_groups(
        source,
        groups_url=str(work / "groups"),
        quarantine_url=str(work / "quarantine"),
        partitions=settings.groups.partitions,
        max_position=settings.groups.max_position,
        max_repeated_ids=settings.log.max_repeated_ids,
    )


def _print(results: list[dict[str, float]]) -> None:
    table = Table(
        title=f"groups against DuckDB {duckdb.__version__}, {CORES} cores, best of {ROUNDS}"
    )
    for name in ("pages", "hot query", "ulr s", "pages/s", "/ same contract", "/ bare", "peak MB",
                 "log MB", "groups", "groups MB"):  # fmt: skip
        table.add_column(name, justify="right")
    for r in results:
        table.add_row(
            f"{r['pages']:,}", f"{r['hot']:.0%}", f"{r['ulr']:.2f}",
            f"{r['pages'] / r['ulr']:,.0f}",
            f"{r['ulr'] / r['same']:.2f}", f"{r['ulr'] / r['bare']:.2f}", f"{r['peak'] / 1e6:,.0f}",
            f"{r['log'] / 1e6:.1f}", f"{r['groups']:,}", f"{r['size'] / 1e6:.1f}",
        )  # fmt: skip
    console = Console(width=140)
    console.print(table)
    uniform = [r for r in results if r["hot"] == 0]
    console.print(f"time at 4 times the pages: {uniform[1]['ulr'] / uniform[0]['ulr']:.2f} times")
    for r in results[len(uniform) :]:
        console.print(
            f"time with a hot query: {r['ulr'] / uniform[-1]['ulr']:.2f} times that without"
        )


if __name__ == "__main__":
    main()
