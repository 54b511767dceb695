"""What a failed Spark job was about, in one line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from ulr.errors import UserError

SPARK_FAILED = (PySparkException, Py4JJavaError)
# Raised by the task itself, or by another that was told of it.
_OURS = re.compile(r"(?:^ulr\.errors\.|stopped: )(?:UserError|InvalidData): (.+)$", re.MULTILINE)
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Z]\w*(?:Error|Lost|Exception|Gone)\b.*)$", re.M)
CANCELLED = "training was cancelled; run again to go on from its last checkpoint"


@contextlib.contextmanager
def reraise_user_errors() -> Iterator[None]:
    """What a task refused reaches the user as if the driver had said it."""
    try:
        yield
    except SPARK_FAILED as error:
        if said := refusal_in(str(error)):
            raise UserError(said) from None
        raise


def refusal_in(text: str) -> str | None:
    """The message of a mistake that trying again cannot mend, if there is one."""
    found = _OURS.search(text)
    return found.group(1).strip() if found else None


def was_cancelled(text: str) -> bool:
    """Whether somebody stopped the job: Ctrl-C, or the button in Spark's own pages."""
    return "[SPARK_JOB_CANCELLED]" in text


def summarize(text: str) -> str:
    """The last Python error in Spark's report; else its first line that says something."""
    raised = [m.group(1).strip() for m in _RAISED.finditer(text) if "PythonException" not in m[0]]
    if raised:
        return raised[-1][:300]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else "no reason given"
