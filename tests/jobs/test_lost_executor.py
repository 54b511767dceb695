"""Three workers in three executors of a local cluster, one of which is killed on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.jobs.test_train_job import CHANGES, model_files, publish_pairs
from ulr.cli.main import main

ROUNDS = ["--set", "train.num_iterations=150", "--set", "train.early_stopping_round=0"]
SLOW = [*CHANGES, *ROUNDS]  # three executors on two cores need a second for some ten rounds
CLUSTER = [
    "--set", "spark.master=local-cluster[3,1,600]", "--set", "spark.executor.memory=600m",
    "--set", "spark.ui.enabled=false", "--set", "train.num_workers=3",
]  # fmt: skip


def children(pid: int) -> list[int]:
    """All processes below one, the deeper ones later."""
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            found += [int(child) for child in task.read_text().split()]
    return found[1:]


def executors(pid: int) -> list[int]:
    """The Java processes of a driver's executors."""
    name = b"CoarseGrainedExecutorBackend"
    return [p for p in children(pid) if name in Path(f"/proc/{p}/cmdline").read_bytes()]


def kill_one_after_a_checkpoint(process: subprocess.Popen, folder: Path) -> None:
    by = time.monotonic() + 240
    while not list(folder.rglob("checkpoints/**/*.json")):
        assert process.poll() is None, "training ended before it could be disturbed"
        assert time.monotonic() < by
        time.sleep(0.02)
    os.kill(executors(process.pid)[0], signal.SIGKILL)


@pytest.mark.spark
def test_three_executors_of_which_one_is_killed_train_the_model_of_one_process(
    tmp_path, monkeypatch, spark
):
    disturbed, alone = tmp_path / "disturbed", tmp_path / "alone"
    for folder in (disturbed, alone):
        publish_pairs(folder)
    command = [sys.executable, "-m", "ulr.cli", "train", *SLOW, *CLUSTER]
    with subprocess.Popen(
        command, cwd=disturbed, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        kill_one_after_a_checkpoint(process, disturbed)
        out, err = process.communicate(timeout=180)
    assert process.returncode == 0, err[-3000:]
    assert "by 3 workers" in out
    assert "attempt 1 failed and was taken up again" in out
    monkeypatch.chdir(alone)
    assert main(["train", *SLOW]) == 0
    (text, record), (text_alone, record_alone) = model_files(disturbed), model_files(alone)
    assert text == text_alone
    assert record["validation"] == record_alone["validation"]
    assert len(record["failures"]) == 1
    assert {worker["resumed_at"] > 0 for worker in record["workers"]} == {True}
