"""Tables as Parquet files under one root; a partition is published in one step.

    ROOT/TABLE/PARTITION/manifest.json        the published folder, its files, inputs and settings
    ROOT/TABLE/PARTITION/FINGERPRINT-RUN/*.parquet

Files are written into a folder that nothing refers to. Replacing the small manifest publishes
them, if it is still the one that was there when the run began. A crash before that leaves the old
version published.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.config.settings import Warehouse as WarehouseSettings
from ulr.errors import DamagedTable, UserError
from ulr.warehouse.cleanup import remove_unneeded
from ulr.warehouse.lock import hold
from ulr.warehouse.manifest import (
    MANIFEST,
    DamagedManifest,
    Manifest,
    partition_path,
    read_manifest,
)
from ulr.warehouse.migrate import migrated
from ulr.warehouse.storage import Storage
from ulr.warehouse.table_files import damaged_files
from ulr.warehouse.transaction import Current, WriteTransaction

KEEP_DAYS = 1.0
# The stage that writes a table, where their names differ.
_WRITTEN_BY = {"quarantine": "groups", "joint_propensities": "propensities",
               "level_propensities": "propensities", "models": "train",
               "diagnostics": "propensities", "metrics": "evaluate", "scores": "score",
               "swap_counts": "propensities", "swap_documents": "propensities",
               "window": "pairs", "logged_features": "groups"}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """A stage's published table; `skipped` if it was already published and unchanged.

    damage: what was wrong with the published version that was rebuilt for this reason.
    """

    manifest: Manifest
    skipped: bool
    damage: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the outcome for scripts; the path is relative to the warehouse."""
        m = self.manifest
        path = f"{m.where}/{m.folder}"
        damage = {"damage": self.damage} if self.damage else {}
        return {"table": m.table, "partition": m.partition, "skipped": self.skipped,
                "path": path, "counts": m.counts, **damage}  # fmt: skip


class Warehouse:
    """All tables under one root."""

    def __init__(self, url: str, *, keep_days: float = KEEP_DAYS) -> None:
        """keep_days: how long a replaced version stays readable."""
        self.storage = Storage(url)
        self.keep_days = keep_days

    def owns(self, table: str, partition: str = "") -> bool:
        """Return whether the partition is stored here; an overlay reads some from its base."""
        return True

    def layers(self) -> list[Warehouse]:
        """Return this warehouse and those that it is based on, nearest first."""
        return [self]

    def storage_of(self, table: str, partition: str = "") -> Storage:
        """Return the storage that holds the partition."""
        return self.storage

    def current(self, table: str, partition: str = "") -> Manifest | None:
        """Return the published version, or None if there is none or its manifest is damaged."""
        return self._read_current(table, partition).manifest

    def _read_current(self, table: str, partition: str) -> Current:
        stored = self.storage_of(table, partition).read_version(
            partition_path(table, partition), MANIFEST
        )
        if stored is None:
            return Current(None, None)
        content, version = stored
        try:
            return Current(read_manifest(content), version)
        except DamagedManifest:
            return Current(None, version)

    def require(self, table: str, partition: str = "") -> Manifest:
        """Return the published version; raise UserError with a hint if there is none.

        A daily table of an earlier schema version is rewritten.
        """
        current = self._read_current(table, partition)
        if current.manifest is None:
            storage, stage = self.storage_of(table, partition), _WRITTEN_BY.get(table, table)
            if current.version is not None:
                path = storage.shown(partition_path(table, partition), MANIFEST)
                raise DamagedTable(f"{path} is damaged; {_rebuild(stage, partition)}")
            names = self.partitions(table)
            hint = f"there is {names[0]} to {names[-1]}" if names else f"run `ulr {stage}` first"
            name = f"{table} {partition}".strip()
            raise UserError(f"the warehouse {storage.shown()} has no {name}; {hint}")
        return migrated(self, current.manifest)

    def damage(self, manifest: Manifest, *, hashes: bool = False) -> list[str]:
        """Return a message for every damaged file of a version; hashes: read the files too."""
        folder = Storage(self._folder_url(manifest))
        return list(damaged_files(folder, manifest.files, hashes=hashes))

    def partitions(self, table: str) -> list[str]:
        """Return the published partitions, sorted."""
        storage = self.storage_of(table)
        return [
            n for n in storage.folders(table) if storage.exists(partition_path(table, n), MANIFEST)
        ]

    def files(self, table: str, partition: str = "") -> list[str]:
        """Return the paths of the published data files; raise UserError if there is no version."""
        return self.paths(self.require(table, partition))

    def paths(self, manifest: Manifest) -> list[str]:
        """Return the paths of a version's data files; raise DamagedTable if one is damaged."""
        self.check(manifest)
        folder = Storage(self._folder_url(manifest))
        return [folder.path(file.name) for file in manifest.files if file.is_data]

    def check(self, manifest: Manifest, *, hashes: bool = False) -> None:
        """Raise DamagedTable if a file of a version is missing, or has another size (or hash)."""
        if damage := self.damage(manifest, hashes=hashes):
            stage = _WRITTEN_BY.get(manifest.table, manifest.table)
            raise DamagedTable(f"{damage[0]}; {_rebuild(stage, manifest.partition)}")

    def read_file(self, manifest: Manifest, name: str) -> bytes:
        """Return the content of a small file of a version, after comparing its hash."""
        folder = Storage(self._folder_url(manifest))
        only = replace(manifest, files=[file for file in manifest.files if file.name == name])
        self.check(only, hashes=True)
        return folder.read_bytes(name)

    def _folder_url(self, manifest: Manifest) -> str:
        storage = self.storage_of(manifest.table, manifest.partition)
        return storage.child(manifest.where, manifest.folder)

    def read(self, table: str, partition: str = "") -> pa.Table:
        """Return all rows of a small table."""
        files = self.files(table, partition)
        return pa.concat_tables(
            pq.read_table(f, filesystem=self.storage.fs, partitioning=None) for f in files
        )

    @contextlib.contextmanager
    def writing(
        self,
        table: str,
        partition: str,
        fingerprint: str,
        *,
        inputs: Any = None,
        settings: Mapping[str, Any] | None = None,
        by_content: bool = False,
    ) -> Iterator[WriteTransaction]:
        """Lock the partition and open a new version of it; unpublished files are removed.

        by_content: the published fingerprint is that of the settings and the files.
        """
        where = partition_path(table, partition)
        with hold(self.storage, where, f"{table} {partition}".strip()) as check_owner:
            current = self._read_current(table, partition)
            self._clean(where, current)
            folder = f"{fingerprint}-{uuid.uuid4().hex[:12]}"
            draft = Manifest(table, partition, fingerprint, folder,
                             inputs=inputs or {}, settings=dict(settings or {}))  # fmt: skip
            transaction = WriteTransaction(
                self.storage, draft, current, check_owner=check_owner, keep_days=self.keep_days,
                by_content=by_content,
            )  # fmt: skip
            try:
                yield transaction
            finally:
                if not transaction.may_be_published:
                    self.storage.delete(where, folder)

    def _clean(self, where: str, current: Current) -> None:
        # A damaged manifest may name any of the folders, so all of them are kept.
        if current.manifest is not None or current.version is None:
            locked = self.storage.is_local
            remove_unneeded(self.storage, where, current.manifest, self.keep_days, locked=locked)


def open_warehouse(settings: WarehouseSettings) -> Warehouse:
    """Return the warehouse of the settings."""
    return Warehouse(settings.path, keep_days=settings.keep_days)


def _rebuild(stage: str, partition: str) -> str:
    date = f" --date {partition.removeprefix('dt=')}" if partition.startswith("dt=") else ""
    return f"run `ulr {stage}{date}` to rebuild it"


def partition_name(method: str) -> str:
    """Return the partition of a method's pairs and model."""
    return f"method={method}"
