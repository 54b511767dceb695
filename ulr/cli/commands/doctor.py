"""Check that this machine can run the stages: a line each, with the command that mends it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from importlib import import_module
from typing import Any

from rich.table import Table
from rich.text import Text

from ulr.cli.doctor import libraries, machine, places
from ulr.cli.doctor.found import ERROR, OK, WARNING, Check, Checked, examine, failing
from ulr.cli.terminal import Answer, show
from ulr.config.settings import Settings
from ulr.errors import EnvironmentCheckFailed

EXAMPLE = "ulr doctor --set train.num_workers=2"

COLOURS = {OK: "green", WARNING: "yellow", ERROR: "bold red"}
INSTALL = "python -m pip install --force-reinstall"


def configure(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """All checks, whatever the first ones find."""
    results = [examine(check) for check in checks_of(settings)]
    show(result_table(results))
    bad = failing(results)
    message = f"{len(bad)} of {len(results)} checks found an error: {', '.join(bad)}"
    return Answer([asdict(r) for r in results], EnvironmentCheckFailed(message) if bad else None)


def checks_of(settings: Settings) -> list[Check]:
    """Every check, with the settings that it is about and the command that usually helps."""
    heap = str(settings.spark.get("driver.memory", "1g"))
    path, workers = settings.warehouse.path, settings.train.num_workers
    return [
        Check("java", machine.java, "apt-get install openjdk-17-jre-headless"),
        Check("python", machine.python, "make clean test PYTHON=python3.11"),
        Check("memory", partial(machine.memory, heap), "ulr doctor --set spark.driver.memory=1g"),
        Check("disk", partial(machine.disk, path, settings.spark.get("local.dir")),
              "ulr doctor --set warehouse.path=/another/disk --set spark.local.dir=/another/disk"),
        Check("spark", partial(libraries.spark_slots, settings.spark, workers),
              "unset SPARK_HOME; export SPARK_LOCAL_IP=127.0.0.1"),
        Check("lightgbm", libraries.lightgbm_loads,
              f"apt-get install libgomp1; {INSTALL} lightgbm"),
        Check("numba", libraries.numba_compiles, f"{INSTALL} numba llvmlite"),
        Check("warehouse", partial(places.warehouse_publishes, path),
              "ulr doctor --set warehouse.path=/a/writable/folder"),
        Check("mlflow", partial(places.registry_answers, partial(_registry, settings)),
              "ulr doctor --set mlflow.local_path=/a/writable/folder"),
        Check("clock", partial(places.clocks_agree, path, _tracking(settings)),
              "timedatectl set-ntp true"),
    ]  # fmt: skip


def result_table(results: Sequence[Checked]) -> Table:
    """A line per check, and what mends it where there is something to mend."""
    mends = ["what mends it"] if any(one.mend for one in results) else []
    table = Table("check", "", "found", *mends)
    for one in results:
        verdict = Text(one.verdict, COLOURS[one.verdict])
        table.add_row(one.check, verdict, one.message, *([one.mend] if mends else []))
    return table


def _registry(settings: Settings) -> Any:
    """One try: who asks a doctor does not want to wait for the fifth."""
    once = settings.mlflow.model_copy(update={"retries": 0})
    registry = import_module("ulr.cli.commands.registry")
    return registry.registry_of(settings.model_copy(update={"mlflow": once}))


def _tracking(settings: Settings) -> str | None:
    return settings.mlflow.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI")
