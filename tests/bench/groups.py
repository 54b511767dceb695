"""`groups` and DuckDB: the same table from the same files, both on 2 cores, in one run.

    python -m tests.bench.groups [--format parquet|json|csv|impressions] [--pages N] [--distinct]
                                 [--engines local,spark] [--skew] [--quick] [--work FOLDER]
    python -m tests.bench.groups --feedback [--pages N]

"same contract": DuckDB also drops repeated sessions and invalid pages, as `groups` does. "bare":
DuckDB only aggregates. Both write Parquet with the documents of each ranking. Runs alternate and
the best of each counts, because the machine may be busy. The ratios are those of the first engine.
Goals: at most 1.3 times DuckDB by the same contract at 500,000 pages, at most 0.6 at 4 million.

--feedback: `groups` alone, from one log, with clicks only and with three levels of feedback.
"""

from __future__ import annotations

import argparse
import datetime as dt
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

from tests.bench.engines import bench_engine
from tests.bench.measure import PeakMemory
from ulr.clicklog.sources import find_source
from ulr.config.load import load_settings
from ulr.config.settings import Settings
from ulr.engine.interface import Engine
from ulr.groups.output import Targets
from ulr.groups.stage import partitions_of
from ulr.groups.tasks import write_groups
from ulr.simulate.stage import simulate_log

DATE = dt.date(2026, 1, 1)
ROUNDS = 4
CORES = 2
GOALS = {500_000: 1.3, 4_000_000: 0.6}  # times DuckDB by the same contract
FORMATS = ("parquet", "json", "csv", "impressions")

# The log of pages in another format; `{docs}` is a column of lists.
COPIES = {
    "parquet": "SELECT * REPLACE ({docs} AS doc_ids) FROM '{file}'",
    "json": "SELECT * REPLACE ({docs} AS doc_ids, {time} AS shown_at) FROM '{file}'",
    "csv": """SELECT * REPLACE (to_json({docs})::VARCHAR AS doc_ids, {time} AS shown_at,
              to_json(clicks)::VARCHAR AS clicks) FROM '{file}'""",
    "impressions": """SELECT * EXCLUDE (doc_ids, clicks), unnest({docs}) AS doc_id,
              unnest(clicks) AS clicked, unnest(range(1, len(doc_ids) + 1))::INT AS position
              FROM '{file}'""",
}
TIME = "strftime(shown_at AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%fZ')"
# Every page has its own order of its documents.
SHUFFLED = """list_transform(list_sort(list_transform(doc_ids,
    lambda d: hash(d || session_id) || ' ' || d)), lambda d: split_part(d, ' ', 2))"""

TYPES = """{session_id: 'VARCHAR', query_id: 'VARCHAR', shown_at: 'TIMESTAMPTZ', doc_ids: '%s',
            clicks: '%s', segment: 'VARCHAR', bucket: 'VARCHAR', swapped: 'BOOLEAN'%s}"""
READ = {
    "parquet": "read_parquet('{files}')",
    "json": "read_json('{files}', format='newline_delimited', columns="
            + TYPES % ("VARCHAR[]", "BOOLEAN[]", "") + ")",
    "csv": """(SELECT * REPLACE (from_json(doc_ids, '["VARCHAR"]') AS doc_ids,
               from_json(clicks, '["BOOLEAN"]') AS clicks)
               FROM read_csv('{files}', header=true, columns="""
           + TYPES % ("VARCHAR", "VARCHAR", ", dt: 'VARCHAR'") + "))",
    # Sessions whose rows disagree, or whose positions have a gap, form no page.
    "impressions": """(
      SELECT *, list_transform(shown, lambda s: s.doc_id) AS doc_ids,
             list_transform(shown, lambda s: s.clicked) AS clicks
      FROM (
        SELECT session_id, min(query_id) AS query_id, min(segment) AS segment,
               min(bucket) AS bucket, bool_or(swapped) AS swapped, min(shown_at) AS shown_at,
               list_sort(list({position: position, doc_id: doc_id, clicked: clicked})) AS copies,
               CASE WHEN count(*) = max(position) THEN copies
                    ELSE list_sort(list_distinct(copies)) END AS shown
        FROM read_parquet('{files}') WHERE session_id <> '' GROUP BY session_id
        HAVING min(query_id) = max(query_id)
           AND min(segment) IS NOT DISTINCT FROM max(segment)
           AND min(bucket) IS NOT DISTINCT FROM max(bucket)
           AND min(swapped) IS NOT DISTINCT FROM max(swapped) AND min(position) = 1)
      WHERE list_transform(shown, lambda s: s.position) = range(1, len(shown) + 1))""",
}  # fmt: skip
SUFFIX = {"json": "json", "csv": "csv"}

BARE = """
COPY (
  SELECT query_id, segment, bucket, swapped, hash(doc_ids) AS ranking,
         any_value(doc_ids) AS doc_ids, histogram(clicks) AS patterns
  FROM {log} GROUP BY query_id, segment, bucket, swapped, ranking
) TO '{out}' (COMPRESSION zstd)
"""

# The rules of the contract that a log of pages can violate.
VALID = """
    SELECT * FROM {log}
    WHERE session_id <> '' AND query_id <> '' AND shown_at IS NOT NULL
      AND len(doc_ids) = len(clicks) AND len(doc_ids) > 0
      AND len(doc_ids) = list_unique(doc_ids)
      AND (bucket IS NULL OR (swapped IS NOT NULL
           AND regexp_full_match(bucket, '[1-9][0-9]*(,[1-9][0-9]*)?:[1-9][0-9]*(,[1-9][0-9]*)?')
           AND list_max(regexp_extract_all(bucket, '[0-9]+')::INT[]) <= len(doc_ids)))
"""
# One page per session; sessions of impressions are unique already.
SAME_CONTRACT = (
    """
CREATE OR REPLACE TEMP TABLE repeated AS
  SELECT session_id FROM {log} GROUP BY session_id HAVING count(*) > 1;
COPY (
  WITH valid AS ("""
    + VALID
    + """), once AS (
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
)
SAME_CONTRACT_IMPRESSIONS = BARE.replace("{log}", f"({VALID})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=4_000_000)
    parser.add_argument("--format", choices=FORMATS, default="parquet")
    parser.add_argument("--distinct", action="store_true", help="no ranking occurs twice")
    parser.add_argument(
        "--skew", action="store_true", help="also a log with one query that has 30%% of the pages"
    )
    parser.add_argument("--engines", default="local,spark", help="separated by commas")
    parser.add_argument("--feedback", action="store_true", help="time three levels of feedback")
    parser.add_argument("--quick", action="store_true", help="500,000 pages only")
    parser.add_argument("--work", type=Path, help="a folder to keep the logs in")
    args = parser.parse_args()
    work = args.work or Path(tempfile.mkdtemp(prefix="ulr-bench-"))
    engines = {name: bench_engine(name) for name in args.engines.split(",")}
    if args.feedback:
        _time_levels(next(iter(engines.values())), work, args.pages)
        return
    sizes = [500_000] if args.quick else [args.pages // 8, args.pages]
    cases = [(pages, 0.0) for pages in sizes] + [(sizes[-1], 0.3)] * args.skew
    results = [_case(engines, work, args, pages, hot) for pages, hot in cases]
    _print(results, args.format, list(engines))
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


def _prepare(engine: Engine, con, settings: Settings, form: str, distinct: bool) -> Path:
    """Write the log as pages, and in the wanted format; return its folder."""
    path = Path(settings.simulate.path)
    if not path.exists():
        simulate_log(engine, settings.simulate)
    if form == "parquet" and not distinct:
        return path / "log"
    folder = path / (form + "-distinct" * distinct)
    for file in sorted(path.glob("log/*/*.parquet")):
        target = folder / file.parent.name / f"{file.stem}.{SUFFIX.get(form, 'parquet')}"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            docs = SHUFFLED if distinct else "doc_ids"
            query = COPIES[form].format(file=file, docs=docs, time=TIME)
            con.execute(f"COPY ({query}) TO '{target}' (FORMAT {SUFFIX.get(form, 'parquet')})")
    return folder


def _case(
    engines: dict[str, Engine], work: Path, args: argparse.Namespace, pages: int, hot: float
) -> dict[str, float]:
    form = args.format
    con = duckdb.connect()
    con.execute(f"SET threads={CORES}")
    settings = _settings(work / f"{pages}-{hot}", pages, hot)
    folder = _prepare(next(iter(engines.values())), con, settings, form, args.distinct)
    changes = [f"log.path={folder}"]
    changes += ["log.layout=impression"] if form == "impressions" else [f"log.format={form}"]
    settings = load_settings(None, changes)
    log = READ[form].replace("{files}", f"{folder}/*/*.{SUFFIX.get(form, 'parquet')}")
    same = SAME_CONTRACT_IMPRESSIONS if form == "impressions" else SAME_CONTRACT
    runs: dict[str, Callable[[], object]] = {
        **{name: partial(_ulr, engine, settings, work) for name, engine in engines.items()},
        "same": lambda: con.execute(same.format(log=log, out=work / "same.parquet")),
        "bare": lambda: con.execute(BARE.format(log=log, out=work / "bare.parquet")),
    }
    best = dict.fromkeys(runs, float("inf"))
    peak = 0.0
    for turn in range(ROUNDS):
        for name, run in runs.items():
            watch = PeakMemory() if name in engines and turn == ROUNDS - 1 else None
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
            peak = max(peak, watch.stop() if watch else 0.0)
    counts = con.execute(f"SELECT count(*) FROM '{work}/same.parquet'").fetchone()
    files = list((work / "groups").glob("part-*.parquet"))
    ours = con.execute(f"SELECT count(*) FROM read_parquet({[str(f) for f in files]})").fetchone()
    if counts != ours:
        raise SystemExit(f"the tables differ: DuckDB has {counts} groups, ulr {ours}")
    size = sum(f.stat().st_size for f in folder.glob("*/*"))
    return {"pages": pages, "hot": hot, "peak": peak, "groups": ours[0], "log": size,
            "size": sum(f.stat().st_size for f in files), **best}  # fmt: skip


def _time_levels(engine: Engine, work: Path, pages: int) -> None:
    """Print the seconds of clicks only and of three levels, best of ROUNDS, runs alternating."""
    path = work / f"{pages}-feedback"
    own = _settings(path, pages, 0.0)
    if not path.exists():
        chances = {"add_to_cart": 0.3, "purchase": 0.1}
        simulate_log(engine, own.simulate.model_copy(update={"feedback": chances}))
    gains = {"clicks": {}, "three levels": {"click": 1.0, "add_to_cart": 3.0, "purchase": 10.0}}
    best = dict.fromkeys(gains, float("inf"))
    for _ in range(ROUNDS):
        for name, feedback in gains.items():
            log = own.log.model_copy(update={"feedback": feedback})
            start = time.perf_counter()
            _ulr(engine, own.model_copy(update={"log": log}), work)
            best[name] = min(best[name], time.perf_counter() - start)
            size = sum(f.stat().st_size for f in (work / "groups").glob("part-*.parquet"))
            print(f"{pages:,} pages, {name}: {best[name]:.2f} s, {size / 1e6:.1f} MB")


def _ulr(engine: Engine, settings: Settings, work: Path) -> None:
    shutil.rmtree(work / "groups", ignore_errors=True)
    source = find_source(engine, settings.log, DATE)
    write_groups(
        engine,
        source.pages(engine),
        Targets(str(work / "groups"), str(work / "quarantine")),
        partitions=partitions_of(source, settings.groups),
        max_position=settings.groups.max_position,
        max_repeated_ids=settings.log.max_repeated_ids,
    )


def _print(results: list[dict[str, float]], form: str, engines: list[str]) -> None:
    title = (
        f"groups from {form} against DuckDB {duckdb.__version__}, {CORES} cores, best of {ROUNDS}"
    )
    table = Table(title=title)
    seconds = [f"{name} s" for name in (*engines, "DuckDB")]
    for name in ("pages", "hot query", *seconds, "/ same contract", "goal", "/ bare", "peak MB",
                 "log MB", "groups", "groups MB"):  # fmt: skip
        table.add_column(name, justify="right")
    for r in results:
        table.add_row(
            f"{r['pages']:,}", f"{r['hot']:.0%}", *(f"{r[e]:.2f}" for e in (*engines, "same")),
            f"{r[engines[0]] / r['same']:.2f}", f"{GOALS.get(int(r['pages']), 1.0):.1f}",
            f"{r[engines[0]] / r['bare']:.2f}", f"{r['peak'] / 1e6:,.0f}",
            f"{r['log'] / 1e6:.1f}", f"{r['groups']:,}", f"{r['size'] / 1e6:.1f}",
        )  # fmt: skip
    console = Console(width=140)
    console.print(table)
    uniform = [r for r in results if r["hot"] == 0]
    if len(uniform) > 1:
        ratio = uniform[1][engines[0]] / uniform[0][engines[0]]
        console.print(f"time at 8 times the pages: {ratio:.2f} times")
    for r in results[len(uniform) :]:
        ratio = r[engines[0]] / uniform[-1][engines[0]]
        console.print(f"time with a hot query: {ratio:.2f} times that without")


if __name__ == "__main__":
    main()
