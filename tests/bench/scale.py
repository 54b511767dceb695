"""Core-seconds, bytes and memory of each stage, by pages and by how far rankings repeat.

    python -m tests.bench.scale [--engine local|spark] [--pages 1,4,16]
                                [--kind repeating|distinct|both] [--work FOLDER]

"repeating": all pages are of 2,000 queries, so that most pages repeat a ranking. "distinct": one
page per query. Core-seconds are the processor time of all processes, of the JVM too, so that
another load on the machine hardly changes them. "sent" are Spark's shuffled bytes, or the most that
the scratch folder of the local engine held. docs/scale.md has the results and what they mean for a
cluster.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import tempfile
import threading
import time
from importlib import import_module
from pathlib import Path

from rich.console import Console

from tests.bench.measure import PeakMemory, cpu_seconds
from ulr.cli.main import main as ulr

DATE = "2026-01-01"
CORES, WARM_UP = 2, 100_000
TREES = 20
STAGES = ("groups", "propensities", "pairs", "train", "evaluate")
HEADINGS = ("pages", "stage", "core-s", "core-us/page", "s", "peak GB", "sent B/page",
            "written B/page")  # fmt: skip
ENGINE = ["local"]  # set by --engine
ROW = "{:>12} {:>13} {:>8} {:>13} {:>7} {:>8} {:>15} {:>15}"


def settings(work: Path, kind: str, pages: int) -> list[str]:
    log, folder = work / f"log-{kind}-{pages}", work / f"out-{kind}-{pages}"
    queries = pages if kind == "distinct" else 2000
    changes = {
        "engine": ENGINE[0], "local.processes": CORES, "local.scratch": work / "scratch",
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


class Sent:
    """The bytes that tasks send from now on: `stop` returns them."""

    def __init__(self, scratch: Path) -> None:
        self._before, self._peak, self._scratch = shuffled(), 0, scratch
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._done.set()
        self._thread.join()
        return shuffled() - self._before if ENGINE[0] == "spark" else self._peak

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            with contextlib.suppress(OSError):  # files are removed meanwhile
                files = list(self._scratch.rglob("*.blocks"))
                self._peak = max(self._peak, sum(f.stat().st_size for f in files))


def shuffled() -> int:
    """Return the shuffle bytes that this process's Spark has written so far."""
    if ENGINE[0] == "local":
        return 0
    spark = import_module("pyspark.sql").SparkSession.getActiveSession()
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
        sent = Sent(work / "scratch")
        watch, cpu, start = PeakMemory(), cpu_seconds(), time.perf_counter()
        before = folder_bytes(folder)
        run(stage, [*dates, *flags])
        results[stage] = {
            "core_s": cpu_seconds() - cpu, "s": time.perf_counter() - start, "peak": watch.stop(),
            "sent": sent.stop(), "written": folder_bytes(folder) - before,
        }  # fmt: skip
    results["log"] = {"written": folder_bytes(work / f"log-{kind}-{pages}" / "log")}
    shutil.rmtree(folder)
    return results


def _cells(stage: str, r: dict[str, float], pages: int) -> list[str]:
    written = f"{r['written'] / pages:.1f}"
    if stage == "log":
        return ["", "", "", "", "", written]
    return [f"{r['core_s']:.1f}", f"{1e6 * r['core_s'] / pages:.2f}", f"{r['s']:.1f}",
            f"{r['peak'] / 1e9:.2f}", f"{r['sent'] / pages:.1f}", written]  # fmt: skip


def run(command: str, flags: list[str]) -> None:
    if code := ulr([command, *flags, "--quiet"]):
        raise SystemExit(f"ulr {command}: exit code {code}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    parser.add_argument("--pages", default="1,4,16", help="millions, separated by commas")
    parser.add_argument("--kind", default="both", choices=["repeating", "distinct", "both"])
    parser.add_argument("--work", type=Path, help="a folder to keep the logs in")
    args = parser.parse_args()
    ENGINE[:] = [args.engine]
    work = args.work or Path(tempfile.mkdtemp(prefix="ulr-bench-"))
    kinds = ["repeating", "distinct"] if args.kind == "both" else [args.kind]
    console = Console(highlight=False, width=120)
    try:
        for kind in kinds:
            measure(work, kind, WARM_UP)
            console.print(f"{kind} rankings, {args.engine} engine, {CORES} cores, {TREES} trees")
            console.print(ROW.format(*HEADINGS))
            for millions in args.pages.split(","):
                pages = int(float(millions) * 1e6)
                rows = measure(work, kind, pages)
                for stage, r in rows.items():
                    console.print(ROW.format(f"{pages:,}", stage, *_cells(stage, r, pages)))
                stages = [r for stage, r in rows.items() if stage != "log"]
                seconds, peak = sum(r["s"] for r in stages), max(r["peak"] for r in stages)
                console.print(f"{pages:,} pages: {seconds:.1f} s, at most {peak / 1e9:.1f} GB")
    finally:
        if not args.work:
            shutil.rmtree(work)


if __name__ == "__main__":
    main()
