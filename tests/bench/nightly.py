"""Seconds of a first, a second and a 30-day night, and of their arithmetic in one process.

    python -m tests.bench.nightly [--quick] [--engine local|spark] [--work FOLDER] [--small]

"first" and "second": the first two nights of a new process on the settings of the demo; the kernels
are compiled before. "3 days" and "30 days": the last of three nights over a window of so many dates
with 10,000 pages each. The floor of a night is its arithmetic in one process (night_floor.py). With
--work the logs are kept and reused.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.night_floor import floor_seconds
from ulr.cli.main import main
from ulr.config.load import load_settings

CORES = 2
START = dt.date(2026, 1, 1)
FIRST_GOAL, SECOND_GOAL, LONG_GOAL, LONGER_GOAL = 10.0, 4.5, 10.0, 3.0
STAGES = ("groups", "propensities", "pairs", "train", "evaluate", "promote")
METHODS = ("auto", "naive")
DEMO = "conf/demo.yaml"
ENGINE = ["local"]  # set by --engine


def changes(work: Path, name: str, window: int, pages: int) -> list[str]:
    """Return the settings of a case as key=value."""
    log, folder = work / f"log-{pages}", work / name
    settings = {
        "engine": ENGINE[0], "local.processes": CORES, "spark.master": f"local[{CORES}]",
        "simulate.path": log, "simulate.days": 33, "simulate.start": START,
        "simulate.pages_per_day": pages,
        "log.path": f"{log}/log", "features.path": f"{log}/features",
        "propensities.window_days": window, "nightly.baselines": "[naive]",
        "warehouse.path": f"{folder}/warehouse", "mlflow.local_path": f"{folder}/mlflow",
    }  # fmt: skip
    return [f"{key}={value}" for key, value in settings.items()]


def ulr(*argv: str, flags: list[str]) -> None:
    sets = [part for flag in flags for part in ("--set", flag)]
    if code := main([*argv, *sets, "--quiet"]):
        raise SystemExit(f"ulr {argv[0]}: exit code {code}")


def stage_seconds(work: Path, name: str, date: dt.date) -> dict[str, float]:
    summary = json.loads((work / name / "warehouse" / "nights" / f"{date}.json").read_text())
    return {stage["stage"]: stage["seconds"] for stage in summary["stages"]}


def window_case(work: Path, window: int, pages: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the seconds of the last of three nights over a window, and those of its floor."""
    name = f"window-{window}"
    flags = changes(work, name, window, pages)
    if not (work / f"log-{pages}").exists():
        ulr("simulate", flags=flags)
    shutil.rmtree(work / name, ignore_errors=True)
    nights = [START + dt.timedelta(days=window - 1 + n) for n in range(3)]
    dates = f"{START}..{nights[0]}"
    ulr("groups", "--date", dates, flags=flags)
    ulr("nightly", "--date", f"{nights[0]}..{nights[-1]}", flags=flags)
    settings = load_settings(None, flags)
    floor_seconds(settings, str(nights[-1]), METHODS)  # loads the kernels
    return (
        stage_seconds(work, name, nights[-1]),
        floor_seconds(settings, str(nights[-1]), METHODS),
    )


def small_case(work: Path, pages: int) -> tuple[list[dict[str, float]], float, dict[str, float]]:
    """Return the seconds of two nights of a new process, of the process, and of the floor."""
    flags = [*changes(work, "small", 30, pages), "simulate.days=2"]
    if not (work / f"log-{pages}").exists():
        ulr("simulate", "--conf", DEMO, flags=flags)
    shutil.rmtree(work / "small", ignore_errors=True)
    dates = [START, START + dt.timedelta(days=1)]
    command = [sys.executable, "-m", "ulr.cli", "nightly", "--conf", DEMO, "--quiet",
               "--date", f"{dates[0]}..{dates[1]}"]  # fmt: skip
    command += [part for flag in flags for part in ("--set", flag)]
    started = time.perf_counter()
    subprocess.run(command, check=True, env=os.environ)
    whole = time.perf_counter() - started
    nights = [stage_seconds(work, "small", date) for date in dates]
    settings = load_settings(Path(DEMO), flags)
    floor_seconds(settings, str(dates[1]), METHODS)
    return nights, whole, floor_seconds(settings, str(dates[1]), METHODS)


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the pages")
    parser.add_argument("--work", type=Path, help="a folder to keep the logs in")
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    parser.add_argument("--small", action="store_true", help="only the first two nights")
    args = parser.parse_args()
    ENGINE[:] = [args.engine]
    work = args.work or Path(tempfile.mkdtemp(prefix="ulr-bench-"))
    less = 10 if args.quick else 1
    try:
        nights, whole, small_floor = small_case(work, 100_000 // less)
        windows = {} if args.small else {"3 days": 3, "30 days": 30}
        measured = {name: window_case(work, days, 10_000 // less) for name, days in windows.items()}
    finally:
        if not args.work:
            shutil.rmtree(work)
    cases = {"first": nights[0], "second": nights[1]}
    cases |= {name: seconds for name, (seconds, _) in measured.items()}
    table = Table(title=f"seconds of a night on {CORES} cores, {args.engine} engine")
    for heading in ("", *cases):
        table.add_column(heading, justify="right" if heading else "left")
    for stage in STAGES:
        table.add_row(stage, *(f"{seconds[stage]:.1f}" for seconds in cases.values()))
    totals = {name: sum(seconds.values()) for name, seconds in cases.items()}
    table.add_row("night", *(f"{total:.1f}" for total in totals.values()))
    floors = [None, *(sum(f.values()) for f in (small_floor, *(f for _, f in measured.values())))]
    table.add_row("floor", *("" if floor is None else f"{floor:.1f}" for floor in floors))
    console = Console(highlight=False)
    console.print(table)
    start = whole - sum(totals[name] for name in ("first", "second"))
    console.print(f"first night with the start of its process: {totals['first'] + start:.1f} s "
                  f"(goal: at most {FIRST_GOAL:.0f})")  # fmt: skip
    console.print(f"second night: {totals['second']:.1f} s (goal: at most {SECOND_GOAL:.0f})")
    if args.small:
        return
    ratio = totals["30 days"] / totals["3 days"]
    console.print(f"night over 30 days: {totals['30 days']:.1f} s (goal: at most "
                  f"{LONG_GOAL:.0f}), {ratio:.1f} times that over 3 days (goal: at most "
                  f"{LONGER_GOAL:.0f})")  # fmt: skip


if __name__ == "__main__":
    run()
