"""Output of the JVM, MLflow, LightGBM and child processes goes to a log file, not to the screen.

Redirecting file descriptors 1 and 2 is the only way that also covers C code (LightGBM, Arrow,
OpenMP) and child processes, so that `--json` leaves exactly one document on stdout.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from ulr.folders import open_private, private_folder

SUBMITTED = "PYSPARK_GATEWAY_PORT"  # set in a process that spark-submit started
_KEEP_S = 7 * 86_400
_active: list[Path] = []  # the log of the enclosing `output_to_log`, if any


def log_path(name: str) -> Path:
    """Return the log file of this process; delete logs that are older than a week."""
    folder = _folder()
    for log in folder.glob("*.log"):
        with contextlib.suppress(OSError):
            if time.time() - log.lstat().st_mtime > _KEEP_S:
                log.unlink()
    return folder / f"{name}-{os.getpid()}.log"


@functools.cache
def _folder() -> Path:
    return private_folder("ulr-logs")


@contextlib.contextmanager
def output_to_log(name: str) -> Iterator[tuple[TextIO, TextIO, Path | None]]:
    """Redirect stdout and stderr of this process and its children to a log file.

    Yields the original stdout and stderr, and the log. Does nothing inside another such block, or
    under spark-submit, where the cluster collects the output.
    """
    if SUBMITTED in os.environ or _active:
        yield sys.stdout, sys.stderr, _active[0] if _active else None
        return
    path = log_path(name)
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(_log_file(path))
        out, err = (stack.enter_context(_duplicate(stream)) for stream in (sys.stdout, sys.stderr))
        for number in (1, 2):
            stack.enter_context(_redirected(number, log.fileno()))
        stack.enter_context(contextlib.redirect_stdout(log))
        stack.enter_context(contextlib.redirect_stderr(log))
        _active.append(path)
        stack.callback(_active.pop)
        yield out, err, path


@contextlib.contextmanager
def _log_file(path: Path) -> Iterator[TextIO]:
    """Yield the open log; its disk may be full when it is closed."""
    log = open_private(path)
    try:
        yield log
    finally:
        with contextlib.suppress(OSError):
            log.close()


@contextlib.contextmanager
def _duplicate(stream: TextIO) -> Iterator[TextIO]:
    """Yield a stream to the same file with a descriptor that is not redirected."""
    try:
        number = os.dup(stream.fileno())
    except (OSError, ValueError):  # a buffer in memory has no descriptor
        yield stream
        return
    with os.fdopen(number, "w", encoding=stream.encoding, errors=stream.errors) as duplicate:
        yield duplicate


@contextlib.contextmanager
def _redirected(number: int, target: int) -> Iterator[None]:
    before = os.dup(number)
    os.dup2(target, number)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # output that C code has buffered
        os.dup2(before, number)
        os.close(before)
