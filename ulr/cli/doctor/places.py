"""The warehouse and the model registry."""

from __future__ import annotations

import contextlib
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.cli.doctor.checks import ERROR, OK, Finding
from ulr.errors import UserError
from ulr.warehouse.lock import hold
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse
from ulr.warehouse.verify import verify

TABLE = "doctor-check"  # a temporary table in the warehouse
TIMEOUT_S = 5.0
_SHOWN = 5  # damaged files in the message


def warehouse_publishes(url: str) -> Finding:
    """Write, publish, replace, read and remove a table, as the stages do."""
    warehouse = Warehouse(url)
    partition = f"at={uuid.uuid4().hex}"
    started = time.monotonic()
    with _cleaned(warehouse.storage, partition):
        for value in (1, 2):
            _publish(warehouse, partition, value)
        seconds = time.monotonic() - started
    return Finding(OK, f"{url}: published, replaced, read in {seconds:.1f} s")


def _publish(warehouse: Warehouse, partition: str, value: int) -> None:
    """Publish one version; readers see the previous one until the manifest is replaced."""
    table = pa.table({"value": [value]})
    before = warehouse.current(TABLE, partition)
    with warehouse.writing(TABLE, partition, f"v{value}") as transaction:
        transaction.write_table(table)
        _second_writer_is_refused(warehouse, partition)
        if warehouse.current(TABLE, partition) != before:
            raise UserError("the table changed before it was published")
        transaction.publish({"rows": 1})
    (file,) = warehouse.files(TABLE, partition)
    if not pq.read_table(file, filesystem=warehouse.storage.fs).equals(table):
        raise UserError("the table read back differs from the one published")


def _second_writer_is_refused(warehouse: Warehouse, partition: str) -> None:
    try:
        with hold(warehouse.storage, f"{TABLE}/{partition}", "the check"):
            pass
    except UserError:
        return
    raise UserError("two writers could hold one lock: this file system does not support locks")


@contextlib.contextmanager
def _cleaned(storage: Storage, partition: str) -> Iterator[None]:
    """Remove the temporary table, and the warehouse if it did not exist before."""
    existed = storage.exists()
    try:
        yield
    finally:
        storage.delete(TABLE, partition)
        if not storage.folders(TABLE):
            storage.delete(TABLE)
        if not existed and storage.is_local and storage.is_empty():
            storage.delete()


def tables_are_intact(url: str) -> Finding:
    """Compare all files of the warehouse with the sizes and hashes in their manifests."""
    found = verify(Storage(url))
    size = f"{found.files:,} files of {found.partitions:,} partitions, {found.bytes / 1e9:.2f} GB"
    if not found.damage:
        return Finding(OK, f"{size}: all as they were published")
    first = "; ".join(found.damage[:_SHOWN])
    more = f"; and {len(found.damage) - _SHOWN} more" if len(found.damage) > _SHOWN else ""
    return Finding(ERROR, f"{size}: {len(found.damage)} are damaged: {first}{more}")


def registry_answers(open_registry: Callable[[], Any]) -> Finding:
    """List the versions of the registered model."""
    registry = open_registry()
    if registry.uri.startswith(("http://", "https://")):
        try:
            _check_reachable(registry.uri)  # fails within seconds; MLflow would retry for minutes
        except UserError as error:
            port = urllib.parse.urlsplit(registry.uri).port or 5000
            return Finding(ERROR, str(error), f"mlflow server --port {port}")
    count = len(registry.versions())
    server = "the local SQLite file" if registry.folder else registry.uri
    return Finding(OK, f"{server} answers; {count} versions of {registry.name}")


def _check_reachable(url: str) -> None:
    """Raise unless the server sends any HTTP answer."""
    scheme, host, path, *_ = urllib.parse.urlsplit(url)
    # Without credentials: urllib would take user:password@host as the name of the host.
    health = f"{scheme}://{host.rpartition('@')[2]}{path.rstrip('/')}/health"
    try:
        with urllib.request.urlopen(health, timeout=TIMEOUT_S):
            return
    except urllib.error.HTTPError:
        return
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise UserError(f"{url} does not answer: {reason}") from None
