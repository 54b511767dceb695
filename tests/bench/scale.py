"""Core-seconds, bytes and memory of each stage, by pages and by how far rankings repeat.

    python -m tests.bench.scale [--pages 1,4,16] [--kind repeating|distinct|both] [--work FOLDER]

"repeating": all pages are of 2,000 queries, so that most pages repeat a ranking. "distinct": one
page per query. Core-seconds are the processor time of Spark's JVM, its Python workers and the
driver together, so that another load on the machine hardly changes them. docs/scale.md has the
results and what they mean for a cluster.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from tests.bench.measure import PeakMemory, cpu_seconds
from ulr.cli.main import main as ulr

DATE = "2026-01-01"
CORES, WARM_UP = 2, 100_000
TREES = 20
STAGES = ("groups", "propensities", "pairs", "train", "evaluate")
HEADINGS = ("pages", "stage", "core-s", "core-us/page", "s", "peak GB", "shuffle B/page",
            "written B/page")  # fmt: skip
ROW = "{:>12} {:>13} {:>8} {:>13} {:>7} {:>8} {:>15} {:>15}"


def settings(work: Path, kind: str, pages: int) -> list[str]:
    log, folder = work / f"log-{kind}-{pages}", work / f"out-{kind}-{pages}"
    queries = pages if kind == "distinct" else 2000
    changes = {
        "spark.master": f"local[{CORES}]", "spark.driver.memory": "6g",
        "simulate.path": log, "simulate.days": 1, "simulate.start": DATE,
        "simulate.pages_per_day": pages, "simulate.pages_per_file": max(pages // 16, 1),
        "simulate.queries": queries, "simulate.zipf": 0.0,
        "simulate.docs_per_query": 10, "simulate.features": 10,
        "simulate.swaps": "[{kind: single, fraction: 0.2}]",
        "log.path": f"{log}/log", "features.path": f"{log}/features",
        "warehouse.path": f"{folder}/warehouse", "mlflow.local_path": f"{folder}/mlflow",
        "train.num_iterations": TREES, "train.early_stopping_round": 0,
    }  # fmt: skip
    return [flag for key, value in changes.items() for flag in ("--set", f"{key}={value}")]


def folder_bytes(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*.parquet"))


def shuffled() -> int:
    """Return the shuffle bytes that this process's Spark has written so far."""
    spark = SparkSession.getActiveSession()
    if spark is None:
        return 0
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return sum(executors.apply(i).totalShuffleWrite() for i in range(executors.size()))


def measure(work: Path, kind: str, pages: int) -> dict[str, dict[str, float]]:
    """Return, by stage, core-seconds, seconds, peak bytes, shuffled bytes and written bytes."""
    flags = settings(work, kind, pages)
    if not (work / f"log-{kind}-{pages}").exists():
        run("simulate", flags)
    folder = work / f"out-{kind}-{pages}"
    shutil.rmtree(folder, ignore_errors=True)
    results = {}
    for stage in STAGES:
        dates = [] if stage == "train" else ["--date", DATE]
        watch, cpu, sent, start = PeakMemory(), cpu_seconds(), shuffled(), time.perf_counter()
        before = folder_bytes(folder)
        run(stage, [*dates, *flags])
        results[stage] = {
            "core_s": cpu_seconds() - cpu, "s": time.perf_counter() - start, "peak": watch.stop(),
            "shuffle": shuffled() - sent, "written": folder_bytes(folder) - before,
        }  # fmt: skip
    results["log"] = {"written": folder_bytes(work / f"log-{kind}-{pages}" / "log")}
    shutil.rmtree(folder)
    return results


def _cells(stage: str, r: dict[str, float], pages: int) -> list[str]:
    written = f"{r['written'] / pages:.1f}"
    if stage == "log":
        return ["", "", "", "", "", written]
    return [f"{r['core_s']:.1f}", f"{1e6 * r['core_s'] / pages:.2f}", f"{r['s']:.1f}",
            f"{r['peak'] / 1e9:.2f}", f"{r['shuffle'] / pages:.1f}", written]  # fmt: skip


def run(command: str, flags: list[str]) -> None:
    if code := ulr([command, *flags, "--quiet"]):
        raise SystemExit(f"ulr {command}: exit code {code}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", default="1,4,16", help="millions, separated by commas")
    parser.add_argument("--kind", default="both", choices=["repeating", "distinct", "both"])
    parser.add_argument("--work", type=Path, help="a folder to keep the logs in")
    args = parser.parse_args()
    work = args.work or Path(tempfile.mkdtemp(prefix="ulr-bench-"))
    kinds = ["repeating", "distinct"] if args.kind == "both" else [args.kind]
    console = Console(highlight=False, width=120)
    try:
        for kind in kinds:
            measure(work, kind, WARM_UP)
            console.print(f"{kind} rankings, {CORES} cores, {TREES} trees")
            console.print(ROW.format(*HEADINGS))
            for millions in args.pages.split(","):
                pages = int(float(millions) * 1e6)
                for stage, r in measure(work, kind, pages).items():
                    console.print(ROW.format(f"{pages:,}", stage, *_cells(stage, r, pages)))
    finally:
        if not args.work:
            shutil.rmtree(work)


if __name__ == "__main__":
    main()
