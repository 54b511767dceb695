"""Where things are kept: the warehouse, the model registry, and whether their clocks agree."""

from __future__ import annotations

import contextlib
import email.utils
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.cli.doctor.found import ERROR, OK, WARNING, Found
from ulr.errors import UserError
from ulr.warehouse.lock import LEASE_S, hold
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

TABLE = "doctor-check"  # a table of its own in the warehouse, for the time of a check
TIMEOUT_S = 5.0
# A lease on an object store ends by the clock of whoever looks at it.
CLOCK_WARNING_S, CLOCK_ERROR_S = 5.0, LEASE_S / 2


def warehouse_publishes(url: str) -> Found:
    """A table is written, published, replaced, read back and removed, as stages do it."""
    warehouse = Warehouse(url)
    partition = f"at={uuid.uuid4().hex}"
    started = time.monotonic()
    with _cleaned(warehouse.storage, partition):
        for value in (1, 2):
            _publish(warehouse, partition, value)
        seconds = time.monotonic() - started
    return Found(OK, f"{url}: published, replaced, read in {seconds:.1f} s")


def _publish(warehouse: Warehouse, partition: str, value: int) -> None:
    """One version of the table; until its manifest is replaced, readers see the one before."""
    table = pa.table({"value": [value]})
    before = warehouse.current(TABLE, partition)
    with warehouse.writing(TABLE, partition, f"v{value}") as draft:
        Storage(draft.url).write_table(table, "part-00000.parquet")
        _second_writer_is_refused(warehouse, partition)
        if warehouse.current(TABLE, partition) != before:
            raise UserError("the table changed before it was published")
        draft.publish({"rows": 1})
    (file,) = warehouse.files(TABLE, partition)
    if not pq.read_table(file, filesystem=warehouse.storage.fs).equals(table):
        raise UserError("the table that was read is not the one that was published")


def _second_writer_is_refused(warehouse: Warehouse, partition: str) -> None:
    try:
        with hold(warehouse.storage, f"{TABLE}/{partition}", "the check"):
            pass
    except UserError:
        return
    raise UserError("two writers could hold one lock: this file system does not keep locks")


@contextlib.contextmanager
def _cleaned(storage: Storage, partition: str) -> Iterator[None]:
    """Leave the warehouse as it was, or as absent as it was."""
    was_there = storage.exists()
    try:
        yield
    finally:
        storage.delete(TABLE, partition)
        if not storage.folders(TABLE):
            storage.delete(TABLE)
        if not was_there and storage.is_local and storage.is_empty():
            storage.delete()


def registry_answers(open_registry: Callable[[], Any]) -> Found:
    """One question to the registry, in the way of the stages."""
    registry = open_registry()
    if _is_web(registry.uri):
        try:
            server_clock(registry.uri)  # a dead address is told here within seconds
        except UserError as why:
            port = urllib.parse.urlsplit(registry.uri).port or 5000
            return Found(ERROR, str(why), f"mlflow server --port {port}")
    count = len(registry.versions())
    where = "the local SQLite file" if registry.folder else registry.uri
    return Found(OK, f"{where} answers; {count} versions of {registry.name}")


def clocks_agree(warehouse: str, tracking: str | None) -> Found:
    """This machine's clock, the one that dates the warehouse's files, and the tracking server's."""
    off = {"the warehouse's files": _file_clock(Storage(warehouse)) - time.time()}
    if tracking and _is_web(tracking):
        with contextlib.suppress(UserError):  # that it is away is the registry's line
            off["the tracking server"] = server_clock(tracking) - time.time()
    message = ", ".join(f"{abs(s):.0f} s from {name}" for name, s in off.items())
    worst = max(map(abs, off.values()))
    late = worst > CLOCK_WARNING_S
    return Found(ERROR if worst > CLOCK_ERROR_S else WARNING if late else OK, message)


def _file_clock(storage: Storage) -> float:
    """When the file system says that a file was written just now."""
    partition = f"at={uuid.uuid4().hex}"
    with _cleaned(storage, partition):
        storage.write_text("now", TABLE, partition, "clock")
        (file,) = storage.files(TABLE, partition)
    return file.mtime_ns / 1e9


def server_clock(url: str) -> float:
    """The time that an HTTP server gives with any answer, to the second."""
    scheme, place, path, *_ = urllib.parse.urlsplit(url)
    # Any answer will do, so nobody logs in: urllib would take me:word@host for the host's name.
    asked = f"{scheme}://{place.rpartition('@')[2]}{path.rstrip('/')}/health"
    try:
        with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as answer:
            told = answer.headers["Date"]
    except urllib.error.HTTPError as answer:  # it lives, whatever it thinks of the question
        told = answer.headers["Date"]
    except OSError as why:
        raise UserError(f"{url} does not answer: {getattr(why, 'reason', why)}") from None
    return email.utils.parsedate_to_datetime(told).timestamp() if told else time.time()


def _is_web(uri: str) -> bool:
    return uri.startswith(("http://", "https://"))
