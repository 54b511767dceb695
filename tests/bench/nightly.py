"""A night by stage on logs of 1, 4 and 16 million pages of the same queries, and a re-run with
another method against the night that began at the log.

    python tests/bench/nightly.py [--quick] [--work FOLDER]

Goals: only `groups` grows with the log, everything after it by at most 10%; a re-run is at least
5 times as fast as the night at 16 million pages. All in one warm Spark session; every night has a
fresh warehouse. With --work the logs are kept, and used again.
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
SIZES = (1_000_000, 4_000_000, 16_000_000)
QUICK = 50  # times smaller
WARM_UP = 20_000
GROWTH, FASTER = 1.10, 5.0
STAGES = ("groups", "propensities", "pairs", "train", "evaluate", "promote")


def settings(work: Path, pages: int) -> list[str]:
    """Every query is asked often enough in the smallest log: a larger one has no new rankings."""
    log, own = work / f"log-{pages}", work / f"night-{pages}"
    changes = {
        "spark.master": f"local[{CORES}]",
        "simulate.path": log, "simulate.days": 1, "simulate.start": DATE,
        "simulate.pages_per_day": pages, "simulate.pages_per_file": max(pages // 8, 1),
        "simulate.queries": 1000, "simulate.zipf": 0.0,
        "log.path": f"{log}/log", "features.path": f"{log}/features",
        "warehouse.path": f"{own}/warehouse", "mlflow.local_path": f"{own}/mlflow",
        "train.num_iterations": 100, "train.early_stopping_round": 0,
        "promote.diagnostics": "ignore",
    }  # fmt: skip
    return [flag for key, value in changes.items() for flag in ("--set", f"{key}={value}")]


def ulr(*argv: str) -> float:
    """Run a command; its seconds."""
    started = time.perf_counter()
    code = main([*argv, "--quiet"])
    if code:
        raise SystemExit(f"ulr {argv[0]}: exit code {code}")
    return time.perf_counter() - started


def night(work: Path, pages: int) -> dict[str, float]:
    """Seconds of every stage, of the night and of a re-run of its day with another method."""
    flags = settings(work, pages)
    ulr("simulate", *flags)
    own = work / f"night-{pages}"
    shutil.rmtree(own, ignore_errors=True)
    whole = ulr("nightly", "--date", DATE, *flags)
    summary = json.loads((own / "warehouse" / "nights" / f"{DATE}.json").read_text())
    seconds = {stage["stage"]: stage["seconds"] for stage in summary["stages"]}
    again = ulr("rerun", "--from", DATE, "--to", DATE, "--methods", "robust", *flags)
    return seconds | {"night": whole, "rerun": again}


def compare(sizes: list[int], work: Path) -> None:
    night(work, WARM_UP)
    found = {pages: night(work, pages) for pages in sizes}
    for seconds in found.values():
        seconds["after groups"] = sum(seconds[stage] for stage in STAGES[1:])
    first, last = found[sizes[0]], found[sizes[-1]]
    table = Table(title=f"seconds of a night on {CORES} cores, by pages of the same queries")
    for heading in ("", *(f"{pages:,}" for pages in sizes), "last / first"):
        table.add_column(heading, justify="right" if heading else "left")
    for row in (*STAGES, "after groups", "night", "rerun"):
        ratio = last[row] / first[row]
        table.add_row(row, *(f"{found[p][row]:.1f}" for p in sizes), f"{ratio:.2f}")
    console = Console(highlight=False)
    console.print(table)
    growth = last["after groups"] / first["after groups"]
    console.print(f"everything after groups at {sizes[-1] // sizes[0]} times the log: {growth:.2f} "
                  f"times (goal: at most {GROWTH:.2f})")  # fmt: skip
    console.print(f"a re-run with another method at {sizes[-1]:,} pages: "
                  f"{last['night'] / last['rerun']:.1f} times as fast as the night "
                  f"(goal: at least {FASTER:.0f})")  # fmt: skip


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"logs {QUICK} times smaller")
    parser.add_argument("--work", type=Path, help="keep the logs here")
    args = parser.parse_args()
    work = args.work or Path(tempfile.mkdtemp(prefix="ulr-bench-"))
    try:
        compare([size // QUICK if args.quick else size for size in SIZES], work)
    finally:
        if not args.work:
            shutil.rmtree(work)


if __name__ == "__main__":
    run()
