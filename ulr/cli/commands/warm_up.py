"""Compile the kernels of all stages and store them, so that the first night does not have to.

Runs a small night on a simulated log in a temporary folder. The compiled code is for this machine's
processor and user; it is stored in NUMBA_CACHE_DIR if set, else with the package if that is
writable, else in the user's cache. Repeat it after an update.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from ulr.cli.arguments import no_options
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_line
from ulr.config.settings import Settings
from ulr.engine.quiet import log_path
from ulr.errors import TemporaryFailure, UserError
from ulr.kernels.jit import code_folder, stored_functions

EXAMPLE = "ulr warm-up"
DATE = "2026-01-01"
_LEARNING = ("naive", "joint", "unbiased-lambdamart", "dla", "labels")  # one of each kind
_LINEAR = ("--set", "train.ranker=linear", "--set")
STEPS = (
    ("simulate",),
    ("nightly", "--date", DATE),
    ("compare", "--date", DATE, "--set", f"compare.methods=[{','.join(_LEARNING)}]"),
    ("compare", "--date", DATE, *_LINEAR, "compare.methods=[naive,dla]"),
    ("judgments", "--date", DATE, "--out", "{work}/judgments.csv"),
    ("propensities", "--date", DATE, "--set", "propensities.estimator=affine"),
)

configure = no_options


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Run the steps in a temporary folder and print the number of kernels that they compiled."""
    run_command: Callable[[Sequence[str]], int] = import_module("ulr.cli.main").main
    started, folder, before = time.monotonic(), code_folder(), stored_functions()
    print_line("warm-up: compiling the kernels of all stages, about half a minute")
    with tempfile.TemporaryDirectory(prefix="ulr-warm-up-") as work:
        flags = ["--quiet", *_flags(Path(work), args)]
        with TERMINAL.steps("warm-up", len(STEPS), "commands") as step:
            for command in STEPS:
                with step(None):
                    parts = [part.format(work=work) for part in command]
                    if code := run_command([*parts, *flags]):
                        failure = UserError if code == UserError.exit_code else TemporaryFailure
                        raise failure(
                            f"`ulr {command[0]}` ended with exit code {code}; "
                            f"see {log_path('warm-up')}"
                        )
    compiled, seconds = len(stored_functions() - before), time.monotonic() - started
    print_line(f"warm-up: {compiled} functions compiled in {seconds:.0f} s -> {folder}")
    return CommandResult({"compiled": compiled, "folder": folder})


def _flags(work: Path, args: argparse.Namespace) -> list[str]:
    """Return the options of the command, then settings of a small log and few trees."""
    changes = {
        "simulate.path": work, "simulate.start": DATE, "simulate.days": 1,
        "simulate.pages_per_day": 4000, "simulate.queries": 100, "simulate.features": 8,
        "log.path": work / "log", "features.path": work / "features",
        "warehouse.path": work / "warehouse",
        "mlflow.local_path": work / "mlflow",
        "groups.partitions": 1, "pairs.partitions": 1, "evaluate.partitions": 1,
        "propensities.min_clicks": 1, "train.num_iterations": 2, "promote.diagnostics": "ignore",
    }  # fmt: skip
    flags = [flag for name in args.conf or [] for flag in ("--conf", name)]
    for change in (*args.set, *(f"{key}={value}" for key, value in changes.items())):
        flags += ["--set", change]
    return flags
