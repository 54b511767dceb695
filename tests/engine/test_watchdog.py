"""A process that does not run is killed; one that computes is not."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.python_workers import has_ended
from tests.support.waiting import wait_until

pytestmark = pytest.mark.all

START = """
import os, signal, time
from ulr.engine.spark.watchdog import watch_this_process
print(watch_this_process({timeout}), flush=True)
"""
STOP = "os.kill(os.getpid(), signal.SIGSTOP)"
COMPUTE = """
end = time.monotonic() + 6.0
while time.monotonic() < end:
    sum(range(100_000))
"""
# One call of C code, during which no other thread gets the interpreter's lock.
IN_ONE_CALL = "sum(range(400_000_000))"


@contextlib.contextmanager
def running(program: str, timeout: float) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Yield a process and the id of its watchdog."""
    command = [sys.executable, "-c", START.format(timeout=timeout) + program]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process, int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.kill
def test_a_stopped_process_is_killed_and_its_watchdog_ends():
    with running(STOP, 2.0) as (process, watchdog):
        _, error = process.communicate(timeout=60.0)
        assert process.returncode == -signal.SIGKILL
        assert f"Python worker {process.pid} did not run for 2 s" in error
        wait_until(lambda: has_ended(watchdog))


@pytest.mark.parametrize(
    ("program", "timeout"), [(COMPUTE, 4.0), (COMPUTE, 0.0), (IN_ONE_CALL, 2.0)]
)
def test_a_process_that_computes_for_longer_than_the_timeout_is_not_killed(program, timeout):
    with running(program, timeout) as (process, watchdog):
        _, error = process.communicate(timeout=60.0)
        assert (process.returncode, error) == (0, "")
        wait_until(lambda: has_ended(watchdog))


@pytest.mark.kill
def test_the_watchdog_of_a_killed_process_ends():
    with running("time.sleep(600)", 60.0) as (process, watchdog):
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=60.0)
        wait_until(lambda: has_ended(watchdog))


@pytest.mark.kill
def test_a_later_call_changes_the_timeout_and_keeps_the_watchdog():
    again = f"print(watch_this_process(2.0), flush=True); {STOP}"
    with running(again, 600.0) as (process, watchdog):
        assert int(process.stdout.readline()) == watchdog
        process.communicate(timeout=60.0)
        assert process.returncode == -signal.SIGKILL
