"""The tables and processes that remain after Ctrl-C or SIGTERM in a running command."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.clicked_pairs import publish_pairs
from tests.support.waiting import LIMIT_S, wait_until
from ulr.cli.main import main
from ulr.warehouse.lock import hold
from ulr.warehouse.storage import Storage

pytestmark = pytest.mark.kill
ENGINES = ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.all])]

ROOT = Path(__file__).parents[2]
MESSAGE = "ulr: interrupted; published tables are complete, re-run to continue\n"


def processes_of(session: int) -> list[str]:
    """Return the commands of a session's processes, in all its process groups."""
    commands = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(state[3]) == session and state[0] != "Z":
                commands.append((folder / "cmdline").read_text().replace("\0", " "))
    return commands


def interrupt(command: list[str], at_work: Callable[[], bool], number: signal.Signals) -> None:
    """Start a command as a shell does; signal its process group once `at_work` is true."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ulr.cli", *command], env=os.environ | {"PYTHONPATH": str(ROOT)},
        start_new_session=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_until(lambda: at_work() or process.poll() is not None, "the command did not start")
        assert process.poll() is None, process.communicate()
        os.killpg(process.pid, number)
        out, err = process.communicate(timeout=LIMIT_S)
        wait_until(lambda: not processes_of(process.pid), "processes were left")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert (err, process.returncode) == (MESSAGE, 128 + number)
    assert out.startswith("engine: ")
    assert out.count("\n") == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_an_interrupted_training_publishes_nothing_and_the_next_one_succeeds(
    engine, tmp_path, monkeypatch
):
    publish_pairs(tmp_path)
    monkeypatch.chdir(tmp_path)
    warehouse = tmp_path / "data" / "warehouse"
    models = warehouse / "models" / "method=joint"
    changes = ("pairs.method=joint", "train.checkpoint_every=5", "train.early_stopping_round=0",
               f"engine={engine}", "spark.driver.memory=1g")  # fmt: skip
    flags = [word for change in changes for word in ("--set", change)]
    endless = ["train", *flags, "--set", "train.num_iterations=1000000"]
    interrupt(endless, lambda: any(warehouse.glob("**/checkpoints/**/*.json")), signal.SIGINT)
    assert [path.name for path in models.iterdir()] == [".lock"]
    with hold(Storage(str(models)), "", "the model"):
        pass
    assert main(["train", *flags, "--set", "train.num_iterations=3", "--set", "engine=local"]) == 0
    assert (models / "manifest.json").exists()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_interrupted_simulation_leaves_no_folder(engine, tmp_path):
    changes = (f"simulate.path={tmp_path}/log", "simulate.pages_per_day=50000000",
               "simulate.pages_per_file=20000", "spark.driver.memory=1g",
               f"engine={engine}")  # fmt: skip
    command = ["simulate", *(word for change in changes for word in ("--set", change))]
    interrupt(command, lambda: any(tmp_path.rglob("dt=*/*.parquet")), signal.SIGTERM)
    assert list(tmp_path.iterdir()) == []
