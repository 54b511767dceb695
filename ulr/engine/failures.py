"""Errors of Spark jobs: find the user error that a task raised, or summarize the report."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from ulr import errors
from ulr.errors import UserError

# In a task's stack trace, or in the error of another worker of the same training.
_RAISED_BY_US = re.compile(r"(?:^ulr\.errors\.|stopped: )([A-Z]\w+): (.+)$", re.MULTILINE)
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*(?:Error|Lost|Exception|Gone)\b.*)$", re.M)
_MAX_CHARACTERS = 300
CANCELLED = "training was cancelled; run again to continue from its last checkpoint"


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


def user_error_in(text: str) -> UserError | None:
    """Return the last error of `ulr.errors` in the text of Spark's error, if there is one."""
    for name, message in reversed(_RAISED_BY_US.findall(text)):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, UserError):
            return kind(message.strip())
    return None


def was_cancelled(text: str) -> bool:
    """Return whether a user stopped the job, by Ctrl-C or in Spark's web interface."""
    return "[SPARK_JOB_CANCELLED]" in text


def summarize(text: str) -> str:
    """Return the last Python error in Spark's report, or else its first line."""
    raised = [m.group(1).strip() for m in _RAISED.finditer(text) if "PythonException" not in m[0]]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (raised[-1:] or lines[:1] or ["no reason given"])[0][:_MAX_CHARACTERS]
