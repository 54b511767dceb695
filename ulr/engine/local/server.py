"""The process that workers are forked from. Imports the standard library only, to start early.

It imports the modules that workers need while this process still imports its own, so that a worker
is ready in milliseconds. Where fork is missing, as on Windows, workers start as new processes.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

# One thread of BLAS, as tasks fill the cores. Modules come from where this process has them.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}
_launching = threading.RLock()


def process_context() -> Any:
    """Return how processes are started: forked from a server, or as new processes."""
    methods = multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")


def start_server(preload: Sequence[str]) -> None:
    """Start the process that workers are forked from. preload: modules that it imports."""
    context = process_context()
    if context.get_start_method() != "forkserver":
        return
    context.set_forkserver_preload(list(preload))
    path = {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    with launching(_ENVIRONMENT | path):
        import_module("multiprocessing.forkserver").ensure_running()


@contextlib.contextmanager
def launching(environment: Mapping[str, str] | None = None) -> Iterator[None]:
    """Start processes in the block, with more environment variables.

    They do not import the main module: a script may start them without a guard.
    """
    own = dict(environment or {})
    with _launching:
        main, before = sys.modules["__main__"], {name: os.environ.get(name) for name in own}
        sys.modules["__main__"] = ModuleType("__main__")
        os.environ.update(own)
        try:
            yield
        finally:
            sys.modules["__main__"] = main
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
