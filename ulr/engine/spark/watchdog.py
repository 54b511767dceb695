"""Kill a Python worker that does not run any more.

A stopped process (SIGSTOP, a debugger) keeps its task and its connection, and Spark waits for it
without end. Spark's own `spark.sql.execution.pyspark.udf.idleTimeoutSeconds` with
`killOnIdleTimeout` cannot be used. It sends SIGTERM, which a stopped process does not act on. It
also kills a task that computes for longer than the time-out: only output counts as activity.

Here a thread of the worker sends a heartbeat every second to a process of its own, which kills the
worker after `timeout` seconds without one. A task that computes sends heartbeats however long it
takes, and a call of C code that keeps the interpreter's lock shows by its processor time. The
watchdog counts seconds in which it ran itself, so that a pause of the whole machine does
not count. It ends with the worker. Spark then reports that the worker crashed, and runs the task
again if its master allows retries.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time

WORKER_TIMEOUT = "spark.ulr.workerTimeout"  # seconds; 0: never
HEARTBEAT_S = 1.0
# Standard input has one line per heartbeat: the time-out in seconds.
_PROGRAM = """
import os, select, signal, sys
worker, limit, silent, before = int(sys.argv[1]), float("inf"), 0, None
def processor_time():
    try:
        with open(f"/proc/{worker}/stat") as file:
            return file.read().rpartition(")")[2].split()[11:13]
    except OSError:
        return None
while True:
    if select.select([0], [], [], 1.0)[0]:
        lines = os.read(0, 65536)
        if not lines:
            break
        limit, silent = float(lines.split()[-1]), 0
    else:
        now = processor_time()
        silent, before = silent + 1 if now == before else 0, now
    if silent >= limit:
        os.kill(worker, signal.SIGKILL)
        print(f"ulr: Python worker {worker} did not run for {silent} s and was killed",
              file=sys.stderr)
        break
"""


class _Watchdog:
    """The process that watches this one."""

    def __init__(self, timeout: float) -> None:
        # In a session of its own: a signal to the worker's group must not stop it.
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(os.getpid())],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdin is not None
        self.pipe = self.process.stdin
        self.set_timeout(timeout)
        threading.Thread(target=self._send_heartbeats, daemon=True).start()

    def set_timeout(self, timeout: float) -> None:
        """Change the time-out at once, since the process may be stopped before a heartbeat."""
        self.timeout = timeout if timeout > 0 else float("inf")
        with contextlib.suppress(OSError):  # the watchdog has ended
            self._send_heartbeat()

    def _send_heartbeat(self) -> None:
        os.write(self.pipe.fileno(), f"{self.timeout}\n".encode())

    def _send_heartbeats(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # it has ended, or this is a fork
            while True:
                time.sleep(HEARTBEAT_S)
                self._send_heartbeat()


_running: list[_Watchdog] = []  # at most one
_lock = threading.Lock()


def _leave_to_parent() -> None:
    for watchdog in _running:
        watchdog.pipe.close()
    _running.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


def watch_this_process(timeout: float) -> int:
    """Have this process killed if it does not run for `timeout` seconds; return the watchdog's id.

    Spark uses a worker for several tasks: a later call changes the time-out. 0: no time-out.
    """
    with _lock:
        if not _running or _running[0].process.poll() is not None:
            _running[:] = [_Watchdog(timeout)]
        else:
            _running[0].set_timeout(timeout)
        return _running[0].process.pid
