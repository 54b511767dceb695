"""Compare all published files below a folder with their manifests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ulr.warehouse.manifest import MANIFEST, DamagedManifest, Manifest, read_manifest
from ulr.warehouse.storage import Storage
from ulr.warehouse.table_files import damaged_files


@dataclass
class Verification:
    """What was compared. damage: a message for each missing, short or altered file."""

    partitions: int = 0
    files: int = 0
    bytes: int = 0
    damage: list[str] = field(default_factory=list)


def verify(storage: Storage) -> Verification:
    """Read every published file, also those of re-runs, and compare size and SHA-256."""
    result = Verification()
    for where, manifest in published(storage):
        result.partitions += 1
        if manifest is None:
            result.damage.append(f"{storage.shown(where, MANIFEST)} is damaged")
            continue
        result.files += len(manifest.files)
        result.bytes += sum(file.size or 0 for file in manifest.files)
        folder = Storage(storage.child(where, manifest.folder))
        result.damage += damaged_files(folder, manifest.files, hashes=True)
    return result


def published(storage: Storage) -> Iterator[tuple[str, Manifest | None]]:
    """Yield the folder of every published partition with its manifest; None if it is damaged."""
    for file in storage.files():
        where, _, name = file.path.rpartition("/")
        if name != MANIFEST:
            continue
        try:
            yield where, read_manifest(storage.read_bytes(file.path))
        except DamagedManifest:
            yield where, None
