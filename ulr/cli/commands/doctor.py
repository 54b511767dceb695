"""Check that this machine can run the stages; print a row per check, with a fix.

The check `log` opens the click log of a date as `ulr groups` does (files, a table or a query),
reads its first rows, and names the columns that are there, mapped or missing. A query (log.sql)
runs on the whole date.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from typing import Any

from rich.table import Table
from rich.text import Text

from ulr.cli.doctor import features, libraries, log, machine, places
from ulr.cli.doctor.checks import (
    ERROR,
    OK,
    WARNING,
    Check,
    Result,
    failed_checks,
    run_check,
)
from ulr.cli.engines import SPARK, chosen_engine
from ulr.cli.terminal import CommandResult, print_table
from ulr.config.settings import Settings
from ulr.errors import EnvironmentCheckFailed

EXAMPLE = "ulr doctor --set train.num_workers=2"

COLOURS = {OK: "green", WARNING: "yellow", ERROR: "bold red"}
INSTALL = "python -m pip install --force-reinstall"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--date", help="the date whose log is read (default: the last dt= folder, or yesterday)"
    )
    parser.add_argument(
        "--verify", action="store_true",
        help="also read every published file and compare its SHA-256 with the manifest",
    )  # fmt: skip


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Run all checks, also after a failed one."""
    checks = checks_of(settings, args.date) + (verify_checks(settings) if args.verify else [])
    results = [run_check(check) for check in checks]
    print_table(result_table(results))
    failed = failed_checks(results)
    message = f"{len(failed)} of {len(results)} checks found an error: {', '.join(failed)}"
    error = EnvironmentCheckFailed(message) if failed else None
    return CommandResult([asdict(result) for result in results], error)


def checks_of(settings: Settings, date: str | None = None) -> list[Check]:
    """Return every check with the command that usually fixes it."""
    path = settings.warehouse.path
    kind, reason = chosen_engine("doctor", settings)
    return [
        Check("engine", partial(machine.engine, kind, reason, settings),
              "ulr doctor --set engine=local, or engine=spark on a cluster"),
        *(_spark_checks(settings) if kind == SPARK else _local_checks(settings)),
        Check("lightgbm", libraries.lightgbm_loads,
              f"apt-get install libgomp1; {INSTALL} lightgbm"),
        Check("numba", libraries.numba_compiles, f"{INSTALL} numba llvmlite"),
        Check("warehouse", partial(places.warehouse_publishes, path),
              "ulr doctor --set warehouse.path=/a/writable/folder"),
        Check("log", partial(log.log_is_readable, settings, date),
              "ulr doctor --date DATE --set log.path=FOLDER; other names: log.columns"),
        Check("features", partial(features.features_are_readable, settings),
              "ulr doctor --set features.path=FOLDER; columns: features.columns, features.keys"),
        Check("mlflow", partial(places.registry_answers, partial(_registry, settings)),
              "ulr doctor --set mlflow.local_path=/a/writable/folder"),
    ]  # fmt: skip


def _local_checks(settings: Settings) -> list[Check]:
    disk = partial(machine.local_disk, settings.warehouse.path, settings.local.scratch)
    return [
        Check("memory", machine.local_memory, "end other programs"),
        Check(
            "disk",
            disk,
            "ulr doctor --set warehouse.path=/another/disk --set local.scratch=/another/disk",
        ),
    ]


def _spark_checks(settings: Settings) -> list[Check]:
    heap, path = str(settings.spark.get("driver.memory", "1g")), settings.warehouse.path
    slots = partial(libraries.spark_slots, settings.spark, settings.train.num_workers)
    return [
        Check("java", machine.java, "apt-get install openjdk-17-jre-headless"),
        Check("python", machine.python, "make clean test PYTHON=python3.11"),
        Check("memory", partial(machine.memory, heap), "ulr doctor --set spark.driver.memory=1g"),
        Check(
            "disk",
            partial(machine.disk, path, str(settings.spark.get("local.dir", ""))),
            "ulr doctor --set warehouse.path=/another/disk --set spark.local.dir=/another/disk",
        ),
        Check("pyspark", libraries.pyspark_version, "pip install 'ulr[spark]'"),
        Check("spark", slots, "unset SPARK_HOME; export SPARK_LOCAL_IP=127.0.0.1"),
    ]


def verify_checks(settings: Settings) -> list[Check]:
    """Return the checks that read all tables."""
    check = partial(places.tables_are_intact, settings.warehouse.path)
    return [Check("tables", check, "run the stage of each named table; it rebuilds the partition")]


def result_table(results: Sequence[Result]) -> Table:
    """Return a row per check, with a column of fixes if there are any."""
    fixes = any(result.fix for result in results)
    table = Table("check", "", "finding", *(["fix"] if fixes else []))
    for result in results:
        verdict = Text(result.verdict, COLOURS[result.verdict])
        table.add_row(result.check, verdict, result.message, *([result.fix] if fixes else []))
    return table


def _registry(settings: Settings) -> Any:
    """Open the registry without retries."""
    once = settings.mlflow.model_copy(update={"retries": 0})
    client = import_module("ulr.registry.client")
    return client.registry_of(settings.model_copy(update={"mlflow": once}))
