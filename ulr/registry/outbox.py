"""Models that could not be registered, stored completely in the warehouse until they are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import asdict

from ulr.errors import RegistryUnavailable
from ulr.registry.client import RegisteredVersion, Registry
from ulr.registry.submission import Submission
from ulr.warehouse.tables import Warehouse

FOLDER = "outbox"


@contextlib.contextmanager
def queue_if_unavailable(warehouse: Warehouse, submission: Submission) -> Iterator[None]:
    """Queue the model if the registry does not answer in the block, and re-raise with the fix."""
    try:
        yield
    except RegistryUnavailable as error:
        warehouse.storage.write_json(asdict(submission), FOLDER, f"{submission.fingerprint}.json")
        raise RegistryUnavailable(
            f"{error}; the model is queued in {warehouse.storage.shown(FOLDER)}: "
            "send it with `ulr registry sync` when the server is back"
        ) from error


def queued(warehouse: Warehouse) -> list[str]:
    """Return the fingerprints of the queued models, sorted."""
    names = [f.path.rpartition("/")[2] for f in warehouse.storage.files(FOLDER)]
    return [name.removesuffix(".json") for name in names]


def sync(registry: Registry, warehouse: Warehouse) -> list[RegisteredVersion]:
    """Register the queued models; each leaves the outbox once it is registered."""
    versions = []
    for fingerprint in queued(warehouse):
        name = f"{fingerprint}.json"
        content = warehouse.storage.read_json(FOLDER, name) or {}
        versions.append(registry.register(Submission(**content)))
        warehouse.storage.delete(FOLDER, name)
    return versions
