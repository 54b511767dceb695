"""Trainings that could not be registered: kept in the warehouse, complete, until they can."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ulr.errors import RegistryUnavailable
from ulr.registry import Registered, Registry
from ulr.registry.submission import Submission, read_submission
from ulr.warehouse.tables import Warehouse

FOLDER = "outbox"


@contextlib.contextmanager
def queue_if_unavailable(warehouse: Warehouse, training: Submission) -> Iterator[None]:
    """If the registry does not answer in the block, keep the model with its record and say how to
    send them later: a trained model is never lost to a failed upload."""
    try:
        yield
    except RegistryUnavailable as away:
        warehouse.storage.write_json(training.to_json(), FOLDER, f"{training.fingerprint}.json")
        raise RegistryUnavailable(
            f"{away}; the model is kept in {warehouse.storage.shown(FOLDER)}: "
            "send it with `ulr registry sync` when the server is back"
        ) from away


def waiting(warehouse: Warehouse) -> list[str]:
    """Fingerprints of the trainings that wait, sorted."""
    names = [f.path.rpartition("/")[2] for f in warehouse.storage.files(FOLDER)]
    return [name.removesuffix(".json") for name in names]


def sync(registry: Registry, warehouse: Warehouse) -> list[Registered]:
    """Register what waits; each is removed from the outbox only once it is registered."""
    sent = []
    for fingerprint in waiting(warehouse):
        name = f"{fingerprint}.json"
        content = warehouse.storage.read_json(FOLDER, name) or {}
        sent.append(registry.send(read_submission(content)))
        warehouse.storage.delete(FOLDER, name)
    return sent
