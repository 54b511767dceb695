"""Kill a stopped process of a local Spark: the JVM, the daemon of the Python workers, a worker.

`watchdog` watches a worker from its first task on. A process that is stopped before that, or that
runs no task, would be waited for without end. On a local master all of them are descendants of this
process, so one small process can look at their states. While this process is stopped itself, as by
Ctrl-Z, nothing is counted.
"""

from __future__ import annotations

import os
import subprocess
import sys

# Ends with its standard input, which the driver holds open.
_PROGRAM = """
import os, select, signal, sys
driver, limit, stopped = int(sys.argv[1]), float(sys.argv[2]), {}
def processes():
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        found[int(name)] = state, int(parent)
    return found
def is_below(process, all_processes):
    while process in all_processes:
        process = all_processes[process][1]
        if process == driver:
            return True
    return False
while not select.select([0], [], [], 1.0)[0]:
    now = processes()
    if now.get(driver, "T")[0] == "T":
        continue
    stopped = {p: stopped.get(p, 0) + 1 for p, (state, _) in now.items()
               if state == "T" and is_below(p, now)}
    for process in [p for p, seconds in stopped.items() if seconds >= limit]:
        os.kill(process, signal.SIGKILL)
        print(f"ulr: process {process} was stopped for {stopped.pop(process)} s and was killed",
              file=sys.stderr)
"""
_watching: list[subprocess.Popen[bytes]] = []  # at most one


def watch_children(timeout: float) -> None:
    """Have descendants of this process killed that are stopped for `timeout` seconds.

    0: never. Does nothing on systems without /proc, and on a second call.
    """
    if timeout <= 0 or _watching or not os.path.exists("/proc/self/stat"):
        return
    _watching.append(
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, str(os.getpid()), str(timeout)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
        )
    )  # fmt: skip
