"""Seconds of each stage of a night for 1, 4 and 16 million pages, and of a re-run.

    python -m tests.bench.growth [--quick] [--engine local|spark] [--work FOLDER]

All logs have the same queries. Goals: the stages after `groups` take at most 10% longer for the
largest log than for the smallest; a re-run with another method is at least 5 times as fast as the
night at 16 million pages. All nights run on one warm engine, each with an empty warehouse.
With --work the logs are kept and reused.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ulr.cli.main import main

DATE = "2026-01-01"
CORES = 2
ENGINE = ["local"]  # set by --engine
SIZES = (1_000_000, 4_000_000, 16_000_000)
QUICK = 50  # --quick divides the sizes by this
WARM_UP = 20_000
GROWTH, FASTER = 1.10, 5.0
STAGES = ("groups", "propensities", "pairs", "train", "evaluate", "promote")


def settings(work: Path, pages: int) -> list[str]:
    """Return settings with so few queries that a larger log has no new rankings."""
    log, folder = work / f"log-{pages}", work / f"night-{pages}"
    changes = {
        "engine": ENGINE[0], "local.processes": CORES, "spark.master": f"local[{CORES}]",
        "simulate.path": log, "simulate.days": 1, "simulate.start": DATE,
        "simulate.pages_per_day": pages, "simulate.pages_per_file": max(pages // 8, 1),
        "simulate.queries": 1000, "simulate.zipf": 0.0,
        "log.path": f"{log}/log", "features.path": f"{log}/features",
        "warehouse.path": f"{folder}/warehouse", "mlflow.local_path": f"{folder}/mlflow",
        "train.num_iterations": 100, "train.early_stopping_round": 0,
        "promote.diagnostics": "ignore",
    }  # fmt: skip
    return [flag for key, value in changes.items() for flag in ("--set", f"{key}={value}")]


def ulr(*argv: str) -> float:
    """Run a command and return its seconds."""
    started = time.perf_counter()
    code = main([*argv, "--quiet"])
    if code:
        raise SystemExit(f"ulr {argv[0]}: exit code {code}")
    return time.perf_counter() - started


def night(work: Path, pages: int) -> dict[str, float]:
    """Return the seconds of every stage, of the night and of a re-run with another method."""
    flags = settings(work, pages)
    ulr("simulate", *flags)
    folder = work / f"night-{pages}"
    shutil.rmtree(folder, ignore_errors=True)
    whole = ulr("nightly", "--date", DATE, *flags)
    summary = json.loads((folder / "warehouse" / "nights" / f"{DATE}.json").read_text())
    seconds = {stage["stage"]: stage["seconds"] for stage in summary["stages"]}
    rerun = ulr("rerun", "--from", DATE, "--to", DATE, "--methods", "robust", *flags)
    return seconds | {"night": whole, "rerun": rerun}


def compare(sizes: list[int], work: Path) -> None:
    night(work, WARM_UP)
    results = {pages: night(work, pages) for pages in sizes}
    for seconds in results.values():
        seconds["after groups"] = sum(seconds[stage] for stage in STAGES[1:])
    first, last = results[sizes[0]], results[sizes[-1]]
    table = Table(title=f"seconds of a night on {CORES} cores, by pages of the same queries")
    for heading in ("", *(f"{pages:,}" for pages in sizes), "last / first"):
        table.add_column(heading, justify="right" if heading else "left")
    for row in (*STAGES, "after groups", "night", "rerun"):
        ratio = last[row] / first[row]
        table.add_row(row, *(f"{results[p][row]:.1f}" for p in sizes), f"{ratio:.2f}")
    console = Console(highlight=False)
    console.print(table)
    growth = last["after groups"] / first["after groups"]
    console.print(f"stages after groups at {sizes[-1] // sizes[0]} times the log: {growth:.2f} "
                  f"times (goal: at most {GROWTH:.2f})")  # fmt: skip
    console.print(f"a re-run with another method at {sizes[-1]:,} pages: "
                  f"{last['night'] / last['rerun']:.1f} times as fast as the night "
                  f"(goal: at least {FASTER:.0f})")  # fmt: skip


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"logs {QUICK} times smaller")
    parser.add_argument("--work", type=Path, help="a folder to keep the logs in")
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    args = parser.parse_args()
    ENGINE[:] = [args.engine]
    work = args.work or Path(tempfile.mkdtemp(prefix="ulr-bench-"))
    try:
        compare([size // QUICK if args.quick else size for size in SIZES], work)
    finally:
        if not args.work:
            shutil.rmtree(work)


if __name__ == "__main__":
    run()
