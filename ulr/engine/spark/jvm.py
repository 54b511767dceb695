"""The process of the JVM: whether it has ended, and by which signal."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from typing import Any

from ulr.engine.exit_codes import MEMORY_HINT, describe_signal

_CLOSE_S = 1.0  # from the end of one connection to the end of its port
_EXIT_S = 10.0  # from the end of its connections to the end of the process


def describe_end() -> str | None:
    """Return how the JVM ended, or None if it runs or was never started.

    Call it after a lost connection to the JVM: it waits for the process to exit.
    """
    gateway = _gateway()
    if gateway is None:
        return None
    end = time.monotonic() + _CLOSE_S
    while _listens(gateway.gateway_parameters.port):
        if time.monotonic() > end:
            return None
        time.sleep(_CLOSE_S / 10)
    if gateway.proc is None:  # spark-submit started it, as the parent of this process
        return f"the Spark JVM ended: {MEMORY_HINT}"
    try:
        code = gateway.proc.wait(_EXIT_S)
    except subprocess.TimeoutExpired:
        return None
    if name := describe_signal(code):
        return f"the Spark JVM was ended by {name}"
    return f"the Spark JVM ended with exit code {code}"


def _gateway() -> Any:
    """Return py4j's gateway, if pyspark was imported and has started one."""
    pyspark = sys.modules.get("pyspark")
    return pyspark.SparkContext._gateway if pyspark else None


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return True
    except OSError:
        return False
