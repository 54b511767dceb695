"""Ctrl-C in the middle of real work: what is left, and what runs on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ulr.cli.main import main
from ulr.warehouse.lock import hold
from ulr.warehouse.storage import Storage

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 120


def processes_of(session: int) -> list[str]:
    """What still runs of a session, whatever process group it moved to."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(state[3]) == session and state[0] != "Z":
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


def interrupt(stage: str, flags: list[str], in_the_middle, number=signal.SIGINT):
    """Start a stage as a shell would, send what Ctrl-C sends once it is at work."""
    command = [sys.executable, "-m", "ulr.cli", stage, *flags]
    environ = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, env=environ, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    end = time.monotonic() + PATIENCE_S
    while not in_the_middle():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.1)
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    end = time.monotonic() + 5
    while processes_of(process.pid) and time.monotonic() < end:
        time.sleep(0.1)
    assert processes_of(process.pid) == []
    assert out == ""
    assert err == "ulr: interrupted; what is published is whole, run again to go on\n"
    return process.returncode


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    """A warehouse with pairs, ready to be trained on."""
    root = tmp_path_factory.mktemp("interrupt")
    changes = {
        "warehouse.path": f"{root}/warehouse", "simulate.path": f"{root}/log",
        "simulate.queries": 60, "simulate.pages_per_day": 4000, "simulate.days": 1,
        "simulate.features": 8, "simulate.docs_per_query": 8, "simulate.positions": 4,
        "log.path": f"{root}/log/log", "features.path": f"{root}/log/features",
        "groups.partitions": 2, "pairs.partitions": 2, "pairs.method": "naive",
        "propensities.estimator": "given", "propensities.given.theta": "[1, 0.5, 0.3, 0.2]",
        "lightgbm.num_leaves": 4, "lightgbm.num_threads": 1, "spark.driver.memory": "1g",
        "train.checkpoint_every": 5, "spark.master": "local[2]",
    }  # fmt: skip
    flags = [flag for key, value in changes.items() for flag in ("--set", f"{key}={value}")]
    for command in (["simulate"], ["groups", "--date", "2026-01-01"],
                    ["propensities", "--date", "2026-01-01"],
                    ["pairs", "--date", "2026-01-01"]):  # fmt: skip
        assert main([*command, *flags]) == 0
    return root, flags


def test_an_interrupted_training_publishes_nothing_and_the_next_goes_on(place):
    root, flags = place
    models = root / "warehouse" / "models" / "method=naive"
    checkpoints = root / "warehouse"
    endless = [
        *flags,
        "--set",
        "train.num_iterations=1000000",
        "--set",
        "train.early_stopping_round=0",
    ]

    def at_work():
        return any("checkpoint" in str(p) for p in checkpoints.rglob("*") if p.is_file())

    assert interrupt("train", endless, at_work) == 128 + signal.SIGINT
    assert [p.name for p in models.iterdir()] == [".lock"]
    with hold(Storage(str(models)), "", "the model"):
        pass
    assert main(["train", *flags, "--set", "train.num_iterations=3"]) == 0
    assert (models / "manifest.json").exists()


def test_an_interrupted_simulation_leaves_no_folder_behind(tmp_path):
    changes = (f"simulate.path={tmp_path}/log", "simulate.pages_per_day=50000000",
               "simulate.pages_per_file=20000", "spark.driver.memory=1g")  # fmt: skip
    flags = [flag for change in changes for flag in ("--set", change)]

    def at_work():
        return any(tmp_path.rglob("dt=*/*.parquet"))

    assert interrupt("simulate", flags, at_work, signal.SIGTERM) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []
