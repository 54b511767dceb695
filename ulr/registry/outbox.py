"""Models that could not be registered, stored completely in the warehouse until they are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from mlflow.exceptions import MlflowException

from ulr.errors import RegistryUnavailable
from ulr.registry.client import RegisteredVersion, Registry
from ulr.registry.lock import registry_lock
from ulr.registry.outbox_entry import DamagedEntry, entry_of, read_entry
from ulr.registry.submission import Submission
from ulr.warehouse.tables import Warehouse

FOLDER = "outbox"


class Synced(NamedTuple):
    """Versions of the models that were sent, and a line for each file that could not be."""

    versions: list[RegisteredVersion]
    damaged: list[str]


@contextlib.contextmanager
def queue_if_unavailable(warehouse: Warehouse, submission: Submission) -> Iterator[None]:
    """Queue the model if the registry does not answer in the block, and re-raise with the fix."""
    try:
        yield
    except RegistryUnavailable as error:
        warehouse.storage.write_json(entry_of(submission), FOLDER, f"{submission.fingerprint}.json")
        raise RegistryUnavailable(
            f"{error}; the model is queued in {warehouse.storage.shown(FOLDER)}: "
            "send it with `ulr registry sync` when the server is back"
        ) from error


def queued(warehouse: Warehouse) -> list[str]:
    """Return the fingerprints of the queued models, sorted."""
    start = len(FOLDER) + 1
    return [f.path[start:].removesuffix(".json") for f in warehouse.storage.files(FOLDER)]


def send(registry: Registry, warehouse: Warehouse, submission: Submission) -> RegisteredVersion:
    """Register a model, or queue it if the registry does not answer."""
    with queue_if_unavailable(warehouse, submission), registry_lock(warehouse):
        return registry.register(submission)


def sync(registry: Registry, warehouse: Warehouse) -> Synced:
    """Register the queued models; each leaves the outbox once it is registered.

    A damaged file, or a model that the server refuses, stays and does not stop the others.
    """
    versions: list[RegisteredVersion] = []
    damaged: list[str] = []
    with registry_lock(warehouse):
        for fingerprint in queued(warehouse):
            file = f"{fingerprint}.json"
            try:
                submission = read_entry(warehouse.storage.read_bytes(FOLDER, file), fingerprint)
                versions.append(registry.register(submission))
            except (DamagedEntry, MlflowException, FileNotFoundError) as error:
                reason = str(error).partition("\n")[0][:300]
                damaged.append(
                    f"{warehouse.storage.shown(FOLDER, file)} cannot be sent: {reason}; delete the "
                    "file, and register the model again with `ulr registry send`"
                )
            else:
                warehouse.storage.delete(FOLDER, file)
    return Synced(versions, damaged)
