"""A clean screen: what the JVM, MLflow, LightGBM and warnings print goes to a log file."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

SUBMITTED = "PYSPARK_GATEWAY_PORT"  # in the environment: spark-submit started this process
KEPT_S = 7 * 86_400
_taken: list[Path] = []  # the log, while noise goes there already


def log_path(name: str) -> Path:
    """Where this process keeps what others have to say; logs that are old are removed."""
    folder = Path(tempfile.gettempdir()) / f"ulr-logs-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():  # somebody else was there first
        folder = Path(tempfile.mkdtemp(prefix="ulr-logs-"))
    for log in folder.glob("*.log"):
        with contextlib.suppress(OSError):
            if time.time() - log.stat().st_mtime > KEPT_S:
                log.unlink()
    return folder / f"{name}-{os.getpid()}.log"


@contextlib.contextmanager
def noise_to_log(name: str) -> Iterator[tuple[TextIO, TextIO, Path | None]]:
    """Whoever prints in the block, child processes too, writes to the log; yields the true stdout
    and stderr, and the log. Under spark-submit the cluster collects the logs: all stays as it is.
    """
    if SUBMITTED in os.environ or _taken:
        yield sys.stdout, sys.stderr, _taken[0] if _taken else None
        return
    path = log_path(name)
    sys.stdout.flush()
    sys.stderr.flush()
    with path.open("a") as log, contextlib.ExitStack() as undo:
        out, err = (undo.enter_context(_kept(stream)) for stream in (sys.stdout, sys.stderr))
        for number in (1, 2):
            undo.enter_context(_pointing(number, log.fileno()))
        undo.enter_context(contextlib.redirect_stdout(log))
        undo.enter_context(contextlib.redirect_stderr(log))
        _taken.append(path)
        undo.callback(_taken.pop)
        yield out, err, path


@contextlib.contextmanager
def _kept(stream: TextIO) -> Iterator[TextIO]:
    """The stream's own way to the screen, whatever becomes of file descriptors 1 and 2."""
    try:
        number = os.dup(stream.fileno())
    except (OSError, ValueError):  # not a file: a test's buffer, say
        yield stream
        return
    with os.fdopen(number, "w", encoding=stream.encoding, errors=stream.errors) as kept:
        yield kept


@contextlib.contextmanager
def _pointing(number: int, target: int) -> Iterator[None]:
    before = os.dup(number)
    os.dup2(target, number)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what C code has printed and not yet written
        os.dup2(before, number)
        os.close(before)
