"""The folder for the pairs and checkpoints of one fit, which the executors and this process reach.

The driver of a classic local session is its executor. A client of Spark Connect is another process,
perhaps on another machine, so a task looks whether the folder is the same one.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import time
import uuid
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from ulr.engine.interface import Batches, Items
from ulr.engine.spark.cluster import is_connect, is_local
from ulr.engine.spark.engine import SparkEngine
from ulr.errors import UserError
from ulr.warehouse.storage import Storage

_MARKER = "client"
_QUIET_S = 3.0  # above spark.python.task.killTimeout, after which Spark ends a cancelled task
_TASKS_END_S = 30.0
_POLL_S = 0.2
_LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def work_folder(spark: SparkSession, work_path: str) -> Iterator[str]:
    """Yield the URL of a folder of its own for one fit below `work_path`, and delete it at the end.

    work_path: may be empty if Spark runs on this machine: then a temporary folder is used.
    """
    if not work_path and not is_local(spark):
        raise UserError(
            "workPath is not set; on a cluster set it to a folder that every executor can reach"
        )
    with contextlib.ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="ulr-", ignore_cleanup_errors=True)
        root = Storage(work_path or stack.enter_context(temporary))
        name = f"fit-{uuid.uuid4().hex}"  # several fits may use the same workPath concurrently
        url = root.child(name)
        try:
            if is_connect(spark):
                _check_shared(spark, url, work_path)
            yield url
        except UserError:
            raise
        except BaseException:
            _delete_until_quiet(root, name)
            raise
        finally:
            _delete(root, name)


def _delete_until_quiet(root: Storage, name: str) -> None:
    """Delete a folder until no task writes to it any more: cancelled tasks run for a while."""
    end = time.monotonic() + _TASKS_END_S
    quiet = time.monotonic() + _QUIET_S
    while time.monotonic() < min(quiet, end):
        if root.exists(name):
            _delete(root, name)
            quiet = time.monotonic() + _QUIET_S
        time.sleep(_POLL_S)


def _delete(root: Storage, name: str) -> None:
    """Delete a folder; what is left of it must not hide the result or the error of a fit."""
    try:
        root.delete(name)
    except OSError as error:
        _LOG.warning("cannot delete %s: %s", root.shown(name), error)


def _check_shared(spark: SparkSession, url: str, work_path: str) -> None:
    """Raise UserError if a task does not see a file that this process writes."""
    Storage(url).write_text(url, _MARKER)
    (seen,) = SparkEngine(session=spark).map(Items([url]), _sees_marker)
    if not seen["seen"][0].as_py():
        given = f"workPath = {work_path}: the" if work_path else "workPath is not set, and the"
        raise UserError(
            f"{given} executors of the Spark Connect server do not see the folders of this "
            "machine; set workPath to a folder that the executors and this client reach, such as "
            "one of an object store"
        )


def _sees_marker(urls: list[str]) -> Batches:
    seen = [Storage(url).exists(_MARKER) for url in urls]
    yield pa.RecordBatch.from_pydict({"seen": seen})
