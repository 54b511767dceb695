"""The campaign of tests/bench/faults: its runner, and a few cheap faults from end to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.bench.faults import report
from tests.bench.faults.__main__ import KINDS
from tests.bench.faults.campaign import Fault, Kind, Outcome, Result, Verdict, nothing, run_kind
from tests.bench.faults.processes import session_processes, unmount_below
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kill

ROOT = Path(__file__).parents[1]


def hang(folder: Path) -> Result:
    """Start a process in its own group, and never return."""
    subprocess.Popen(["sleep", "1000"], process_group=0)
    (folder.parent.parent / "session").write_text(str(os.getsid(0)))
    time.sleep(1000)
    raise AssertionError


def end_by_a_signal(folder: Path) -> Result:
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


def raise_an_error(folder: Path) -> Result:
    raise ZeroDivisionError("for a test")


def lose(folder: Path) -> Result:
    return Result(Verdict.LOST, "a table")


def run(*faults: Fault) -> list[Outcome]:
    return run_kind(Kind("tests", nothing, lambda *_: list(faults)), seed=1, quick=True)


@pytest.mark.all
def test_every_verdict_is_counted_and_a_hanging_fault_leaves_no_process(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    outcomes = run(
        Fault("tests", "hang", hang, limit_s=3.0),
        Fault("tests", "signal", end_by_a_signal),
        Fault("tests", "error", raise_an_error),
        Fault("tests", "lose", lose),
    )
    verdicts = {outcome.name: outcome.result.verdict for outcome in outcomes}
    assert verdicts == {"hang": "hung", "signal": "crashed", "error": "crashed", "lose": "lost"}
    assert "SIGSEGV" in outcomes[1].result.detail
    session = int((tmp_path / "session").read_text())
    wait_until(lambda: not session_processes(session))
    assert report.table(outcomes).splitlines()[-1].split("|")[2:8] == [
        " 4    ", " 0        ", " 1    ", " 1    ", " 0        ", " 2       ",
    ]  # fmt: skip
    assert len(report.notes(outcomes, 1)) == 4
    assert "--only tests --fault lose --seed 1" in report.notes(outcomes, 1)[3]


@pytest.mark.all
def test_faults_of_models_and_of_a_store_run_from_end_to_end(tmp_path):
    file = tmp_path / "outcomes.json"
    # The end of the names chooses a cycle in a tree, a line twice, a race of two writers...
    arguments = ["--quick", "--only", "models,store", "--fault", "e-0", "--json", str(file)]
    run = subprocess.run(
        [sys.executable, "-m", "tests.bench.faults", *arguments], cwd=ROOT, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    content = json.loads(file.read_text())
    assert {row["kind"] for row in content["kinds"]} == {"models", "store"}
    assert {fault["verdict"] for fault in content["faults"]} == {"survived"}
    assert "| all " in run.stdout


def test_every_kind_has_a_module():
    folder = Path(report.__file__).parent
    assert all((folder / f"{kind}.py").exists() for kind in KINDS)


def test_nothing_is_unmounted_outside_of_the_folder(tmp_path):
    before = Path("/proc/self/mounts").read_text()
    unmount_below(tmp_path)
    assert Path("/proc/self/mounts").read_text() == before
