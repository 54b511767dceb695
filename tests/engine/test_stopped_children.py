"""A stopped process below the driver is killed, unless the driver is stopped too."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

pytestmark = pytest.mark.all

PROGRAM = """
import subprocess, sys, time
from ulr.engine.spark.stopped_children import watch_children
watch_children(float(sys.argv[1]))
command = ["bash", "-c", "sleep 600 & echo $!; wait"]
child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
print(child.stdout.readline(), flush=True)
time.sleep(600)
"""


@contextlib.contextmanager
def driver(timeout: float) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Yield a process that watches its descendants, and the id of a grandchild."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(timeout)], stdout=subprocess.PIPE, text=True
    )
    grandchild = int(process.stdout.readline())
    try:
        yield process, grandchild
    finally:
        process.kill()
        process.communicate()
        with contextlib.suppress(ProcessLookupError):
            os.kill(grandchild, signal.SIGKILL)


def runs(process: int) -> bool:
    """Return whether the process exists and is the `sleep`; it may end while it is looked at."""
    try:
        return "sleep" in Path(f"/proc/{process}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.kill
def test_a_stopped_grandchild_is_killed():
    with driver(2.0) as (_, grandchild):
        os.kill(grandchild, signal.SIGSTOP)
        wait_until(lambda: not runs(grandchild))


@pytest.mark.kill
def test_nothing_is_killed_while_the_driver_is_stopped():
    with driver(1.0) as (process, grandchild):
        os.kill(process.pid, signal.SIGSTOP)
        os.kill(grandchild, signal.SIGSTOP)
        time.sleep(5)
        assert runs(grandchild)
        os.kill(process.pid, signal.SIGCONT)
        wait_until(lambda: not runs(grandchild))


def test_a_running_grandchild_stays():
    with driver(1.0) as (_, grandchild):
        time.sleep(4)
        assert runs(grandchild)
