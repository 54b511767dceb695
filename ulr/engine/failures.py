"""Failures of an engine and the machine: find the user error behind them, or explain them.

A failure that is no user error may pass when the command is run again: it becomes a
TemporaryFailure (exit code 1) with one line that names its cause.
"""

from __future__ import annotations

import contextlib
import errno
import re
import sys
from collections.abc import Callable, Iterator
from importlib import import_module

from ulr import errors
from ulr.engine.exit_codes import MEMORY_HINT, describe_signal
from ulr.errors import TemporaryFailure, UserError

# In a task's stack trace, or in the error of another worker of the same training.
_RAISED_BY_US = re.compile(r"(?:^ulr\.errors\.|stopped: )([A-Z]\w+): (.+)$", re.MULTILINE)
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*(?:Error|Lost|Exception|Gone)\b.*)$", re.M)
_TASK_FAILED = re.compile(r"most recent failure: [^\n]*?\): (?:[\w.]*\.)?([A-Z][^\n]+)")
_NO_REASON = re.compile(r"^An error occurred while calling \S+$")
_MAX_CHARACTERS = 300
CANCELLED = "training was cancelled; run again to continue from its last checkpoint"

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FREE = (
    "free space in the warehouse and in the temporary folder, or name another folder "
    "(local.scratch; on Spark, spark.local.dir)"
)
# Causes in Spark's reports. The first that matches explains the failure.
_CAUSES: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    (re.compile(r"\[SPARK_JOB_CANCELLED\]|Job \d+ cancelled"), lambda _: "the job was cancelled"),
    (
        re.compile(
            r"(?:No space left on device|Disk quota exceeded|database or disk is full)"
            r"(?:: '[^'\n]+')?"
        ),
        lambda m: f"a disk is full ({m[0]}); {_FREE}",
    ),
    (
        re.compile(r"ExecutorLostFailure \(executor (\S+) [^)]*\) Reason: ([^\n]+)"),
        lambda m: f"executor {m[1]} was lost: {_exit_reason(m[2])}",
    ),
    (
        re.compile(r"Python worker exited unexpectedly \(crashed\)(?:: Fatal Python error: (.+))?"),
        lambda m: f"a Python worker ended in a task: {m[1]}"
        if m[1]
        else f"a Python worker was killed in a task, most likely by SIGKILL: {MEMORY_HINT}; "
        "a stopped worker is killed after spark.ulr.workerTimeout",
    ),
    (
        re.compile(r"Python worker process terminated due to idle timeout[^\n]*"),
        lambda _: "a Python worker made no progress and was ended",
    ),
    (
        re.compile(r"java\.lang\.OutOfMemoryError: ([^\n]+)"),
        lambda m: f"the Spark JVM ran out of memory ({m[1].strip()}); raise spark.driver.memory "
        "or spark.executor.memory",
    ),
    (
        re.compile(
            r"^(?:\w+\.)*(?:MemoryError|ArrowMemoryError)\b|std::bad_alloc|malloc of size",
            re.MULTILINE,
        ),
        lambda _: f"a Python process could not allocate memory: {MEMORY_HINT}",
    ),
    (
        re.compile(r"All masters are unresponsive|SparkContext was shut down"),
        lambda m: f"the connection to the Spark cluster was lost ({m[0]})",
    ),
]  # fmt: skip


@contextlib.contextmanager
def reraise_user_errors() -> Iterator[None]:
    """Raise a user error of a Spark task with its own class, as if the driver had raised it.

    Also usable as a decorator. Every other error passes unchanged.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if user_error := user_error_in(str(error)):
            raise user_error from None
        raise


def explain(error: Exception) -> UserError | None:
    """Return the error as one with an exit code and one line, or None if its cause is unknown.

    The original error is its context.
    """
    if isinstance(error, UserError):
        return error
    text = str(error) or type(error).__name__
    known = user_error_in(text)
    if known is None and (cause := _cause_in_driver(error) or cause_in(text)):
        known = TemporaryFailure(f"{cause}; nothing unfinished was published, run again")
    if known is not None:
        known.__context__ = error
    return known


def user_error_in(text: str) -> UserError | None:
    """Return the last error of `ulr.errors` in the text of a task's error, if there is one."""
    for name, message in reversed(_RAISED_BY_US.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, UserError):
            return kind(message.strip())
    return None


def interrupt_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the interrupt that caused an error, if any: cleanup fails once the JVM has ended."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error


def was_cancelled(text: str) -> bool:
    """Return whether a user stopped the job, by Ctrl-C or in Spark's web interface."""
    return "[SPARK_JOB_CANCELLED]" in text


def cause_in(text: str) -> str | None:
    """Return the known cause in a report of Spark, or None."""
    for pattern, cause in _CAUSES:
        if match := pattern.search(text):
            return cause(match)[:_MAX_CHARACTERS]
    return None


def summarize(text: str) -> str:
    """Return the cause in Spark's report, its last Python error, or else its first reason."""
    if cause := cause_in(text):
        return cause
    raised = [m.group(1).strip() for m in _RAISED.finditer(text) if "PythonException" not in m[0]]
    failed = [m.group(1).strip() for m in _TASK_FAILED.finditer(text)]
    lines = [line.strip(" \t.:") for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not _NO_REASON.match(line)]
    return (raised[-1:] or failed[:1] or lines[:1] or ["no reason given"])[0][:_MAX_CHARACTERS]


def _cause_in_driver(error: BaseException) -> str | None:
    """Return the cause of an error that the driver itself met."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _FULL:
            where = f": {seen.filename!r}" if seen.filename else ""
            return cause_in(f"No space left on device{where}")
        if isinstance(seen, MemoryError):
            return cause_in("MemoryError")
        if _lost_connection(seen) and (end := _end_of_jvm()):
            return end
        seen = seen.__cause__ or seen.__context__
    return None


def _end_of_jvm() -> str | None:
    """Return how the JVM ended, if there was one."""
    if "pyspark" not in sys.modules:
        return None
    end: str | None = import_module("ulr.engine.spark.jvm").describe_end()
    return end


def _lost_connection(error: BaseException) -> bool:
    """Return whether an answer of the JVM is missing; Py4JJavaError is an answer."""
    kind = type(error)
    py4j = kind.__module__ == "py4j.protocol" and kind.__name__ != "Py4JJavaError"
    return py4j or isinstance(error, ConnectionError | EOFError)


def _exit_reason(reason: str) -> str:
    """Return Spark's reason of a lost executor; a code above 128 is a signal."""
    code = re.search(r"(?:exited with code|[Ee]xit (?:code|status):?) (\d+)", reason)
    name = describe_signal(int(code[1])) if code else None
    return f"{reason.strip()} ({name})" if name else reason.strip()
