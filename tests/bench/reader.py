"""`groups` from a table with mapped columns against the same pages as files of the contract.

    python -m tests.bench.reader [--pages N] [--rounds N] [--work FOLDER]

The fast path reads Parquet files in tasks. The table is a view of the same pages with other names
and types, read through `log.table` and `log.columns`: numbers as times, and an expression for each
list. Runs alternate in one Spark session, the best of each counts; the files are also read on the
local engine. Goal: at most 2.5 times the files on Spark.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from tests.bench.engines import CORES, bench_engine
from tests.bench.groups import DATE
from ulr.clicklog.sources import find_source
from ulr.config.load import load_settings
from ulr.engine.interface import Engine
from ulr.groups.output import Targets
from ulr.groups.stage import partitions_of
from ulr.groups.tasks import write_groups
from ulr.simulate.stage import simulate_log

GOAL = 2.5
NAMES = {"session_id": "query_uuid", "query_id": "term", "segment": "device",
         "bucket": "experiment", "swapped": "variant"}  # fmt: skip
MAPPED = NAMES | {
    "shown_at": "timestamp_millis(ts)",
    "doc_ids": "transform(items, i -> i.id)",
    "clicks": "transform(items, i -> i.clicked)",
}
SAME = NAMES | {"shown_at": "at", "doc_ids": "documents", "clicks": "clicked"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, help="a folder to keep the logs in")
    args = parser.parse_args()
    work = args.work or Path(tempfile.mkdtemp(prefix="ulr-bench-"))
    engines = {name: bench_engine(name) for name in ("local", "spark")}
    spark = engines["spark"].session
    _prepare(engines["spark"], work, args.pages)
    columns = {"table, plain names": SAME, "table, expressions": MAPPED}
    cases = {"files of the contract": [f"log.path={work}/log/log"]}
    cases["files, other names"] = [f"log.path={work}/same", *_mapping(SAME)]
    for name, folder in zip(columns, ("same", "events"), strict=True):
        spark.read.parquet(f"{work}/{folder}").createOrReplaceTempView(folder)
        cases[name] = [f"log.table={folder}", *_mapping(columns[name])]
    counts = {}
    own = {name: ("spark", changes) for name, changes in cases.items()}
    own |= {f"{name}, local": ("local", cases[name]) for name in list(cases)[:2]}
    best = dict.fromkeys(own, float("inf"))
    for _ in range(args.rounds):
        for name, (kind, changes) in own.items():
            start = time.perf_counter()
            counts[name] = _groups(engines[kind], load_settings(None, changes), work)
            best[name] = min(best[name], time.perf_counter() - start)
    if len({c["groups"] for c in counts.values()}) > 1:
        raise SystemExit(f"the groups differ: {counts}")
    fast = best["files of the contract"]
    print(f"groups of {args.pages:,} pages, {CORES} cores, best of {args.rounds} (goal {GOAL})")
    for name, seconds in best.items():
        print(f"{name:28} {seconds:6.2f} s  {seconds / fast:5.2f}")
    if not args.work:
        shutil.rmtree(work)


def _mapping(columns: dict[str, str]) -> list[str]:
    return [f"log.columns.{name}={text}" for name, text in columns.items()]


def _prepare(engine, work: Path, pages: int) -> None:
    """Write the pages as files of the contract, under other names, and with other types."""
    if (work / "events").exists():
        return
    changes = [
        f"simulate.path={work}/log", "simulate.days=1", f"simulate.start={DATE}",
        f"simulate.pages_per_day={pages}", f"simulate.pages_per_file={pages // 8}",
        "simulate.queries=50000", "simulate.swaps=[{kind: single, fraction: 0.5}]",
    ]  # fmt: skip
    simulate_log(engine, load_settings(None, changes).simulate)
    log = engine.session.read.parquet(f"{work}/log/log")
    names = [f"{name} AS {other}" for name, other in NAMES.items()]
    same = log.selectExpr(*names, "shown_at AS at", "doc_ids AS documents", "clicks AS clicked")
    same.write.parquet(f"{work}/same")
    items = "arrays_zip(doc_ids, clicks)"
    struct = "transform({}, z -> struct(z.doc_ids AS id, z.clicks AS clicked)) AS items"
    events = log.selectExpr(*names, "unix_millis(shown_at) AS ts", struct.format(items))
    events.write.parquet(f"{work}/events")


def _groups(engine: Engine, settings, work: Path) -> dict[str, int]:
    shutil.rmtree(work / "groups", ignore_errors=True)
    source = find_source(engine, settings.log, DATE)
    return write_groups(
        engine,
        source.pages(engine),
        Targets(str(work / "groups"), str(work / "quarantine")),
        partitions=partitions_of(source, settings.groups),
        max_position=settings.groups.max_position,
        max_repeated_ids=settings.log.max_repeated_ids,
    )


if __name__ == "__main__":
    main()
