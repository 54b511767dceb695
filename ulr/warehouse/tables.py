"""Tables as Parquet files under one root; a partition is published in one step.

    ROOT/TABLE/PARTITION/manifest.json        the published folder, its inputs and settings
    ROOT/TABLE/PARTITION/FINGERPRINT-N/*.parquet

Files are written into a folder that nothing refers to; replacing the small manifest publishes
them. A crash before that leaves the old version published, and the next writer removes the
leftover files. The folder that was just replaced stays until the next publication, for readers
that still have it open.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.errors import UserError
from ulr.version import __version__
from ulr.warehouse.lock import CheckOwner, hold
from ulr.warehouse.schema import SCHEMA_VERSION
from ulr.warehouse.storage import Storage

MANIFEST = "manifest.json"
IN_PROGRESS = "_begun"  # marks an unpublished folder; if it is missing, the folder was removed
# The stage that writes a table, where their names differ.
_WRITTEN_BY = {"quarantine": "groups", "joint_propensities": "propensities", "models": "train",
               "diagnostics": "propensities", "metrics": "evaluate", "scores": "score",
               "swap_counts": "propensities", "swap_documents": "propensities"}  # fmt: skip


@dataclass(frozen=True)
class Manifest:
    """The published version of a partition, and the inputs and settings it was made from."""

    table: str
    partition: str
    fingerprint: str
    folder: str
    previous: str | None = None
    files: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    inputs: Any = None
    settings: dict[str, Any] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION
    version: str = __version__


@dataclass(frozen=True)
class Outcome:
    """A stage's published table; `skipped` if it was already published and unchanged."""

    manifest: Manifest
    skipped: bool

    def to_json(self) -> dict[str, Any]:
        """Return the outcome for scripts; the path is relative to the warehouse."""
        m = self.manifest
        path = f"{_join(m.table, m.partition)}/{m.folder}"
        return {"table": m.table, "partition": m.partition, "skipped": self.skipped,
                "path": path, "counts": m.counts}  # fmt: skip


class WriteTransaction:
    """An unpublished version of a partition; its files go into the folder `url`."""

    def __init__(self, storage: Storage, draft: Manifest, check_owner: CheckOwner) -> None:
        self._storage, self._draft, self._check_owner = storage, draft, check_owner
        self._where = _join(draft.table, draft.partition)
        storage.write_text("", self._where, draft.folder, IN_PROGRESS)
        self.url = storage.child(*filter(None, [draft.table, draft.partition]), draft.folder)
        self.fingerprint = draft.fingerprint
        self.manifest: Manifest | None = None  # set by publish

    def write_table(self, table: pa.Table) -> None:
        """Write a table that is small enough for one file."""
        Storage(self.url).write_table(table, "part-00000.parquet")

    def publish(self, counts: Mapping[str, int]) -> Manifest:
        """Make the written files the partition's content, in one step.

        Raises UserError if another run has removed the files: without this check an empty table
        would be published.
        """
        folder = self._draft.folder
        self._check_owner()
        if not self._storage.exists(self._where, folder, IN_PROGRESS):
            raise UserError(
                f"{self._where}/{folder}: another run removed these files before they were "
                "published; nothing was published, run again"
            )
        self._storage.delete(self._where, folder, IN_PROGRESS)
        start = len(f"{self._where}/{folder}/")
        current = self._storage.read_json(self._where, MANIFEST) or {}
        self.manifest = replace(
            self._draft,
            previous=current.get("folder"),
            files=[f.path[start:] for f in self._storage.files(self._where, folder)],
            counts=dict(sorted(counts.items())),
        )
        self._storage.write_json(vars(self.manifest), self._where, MANIFEST)
        _remove_unreferenced(self._storage, self._where)
        return self.manifest


class Warehouse:
    """All tables under one root."""

    def __init__(self, url: str) -> None:
        self.storage = Storage(url)

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
        """Return the published version, or None."""
        content = self.storage_of(table, partition).read_json(_join(table, partition), MANIFEST)
        return Manifest(**content) if content else None

    def require(self, table: str, partition: str = "") -> Manifest:
        """Return the published version; raise UserError with a hint if there is none."""
        manifest = self.current(table, partition)
        if manifest is None:
            names = self.partitions(table)
            stage = _WRITTEN_BY.get(table, table)
            hint = f"there is {names[0]} to {names[-1]}" if names else f"run `ulr {stage}` first"
            name, where = f"{table} {partition}".strip(), self.storage_of(table, partition).shown()
            raise UserError(f"the warehouse {where} has no {name}; {hint}")
        return manifest

    def partitions(self, table: str) -> list[str]:
        """Return the published partitions, sorted."""
        storage = self.storage_of(table)
        return [n for n in storage.folders(table) if storage.exists(_join(table, n), MANIFEST)]

    def files(self, table: str, partition: str = "") -> list[str]:
        """Return the paths of the published files; raise UserError if there is no version."""
        return self.paths(self.require(table, partition))

    def paths(self, manifest: Manifest) -> list[str]:
        """Return the paths of a version's files."""
        storage = self.storage_of(manifest.table, manifest.partition)
        folder = _join(manifest.table, manifest.partition), manifest.folder
        return [storage.path(*folder, name) for name in manifest.files]

    def read(self, table: str, partition: str = "") -> pa.Table:
        """Return all rows of a small table."""
        files = self.files(table, partition)
        return pa.concat_tables(pq.read_table(f, filesystem=self.storage.fs) for f in files)

    @contextlib.contextmanager
    def writing(
        self,
        table: str,
        partition: str,
        fingerprint: str,
        *,
        inputs: Any = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Iterator[WriteTransaction]:
        """Lock the partition and open a new version of it; unpublished files are removed."""
        where = _join(table, partition)
        with hold(self.storage, where, f"{table} {partition}".strip()) as check_owner:
            _remove_unreferenced(self.storage, where)
            taken = set(self.storage.folders(where))
            names = (f"{fingerprint}-{n}" for n in range(1, len(taken) + 2))
            folder = next(n for n in names if n not in taken)
            draft = Manifest(table, partition, fingerprint, folder,
                             inputs=inputs or {}, settings=dict(settings or {}))  # fmt: skip
            try:
                yield WriteTransaction(self.storage, draft, check_owner)
            finally:
                with contextlib.suppress(UserError):  # leave the files of a new owner alone
                    check_owner()
                    _remove_unreferenced(self.storage, where)


def _join(table: str, partition: str) -> str:
    return f"{table}/{partition}" if partition else table


def _remove_unreferenced(storage: Storage, where: str) -> None:
    """Remove the folders of versions that are neither published nor the one before."""
    manifest = storage.read_json(where, MANIFEST) or {}
    kept = {manifest.get("folder"), manifest.get("previous")}
    for name in storage.folders(where):
        if "=" not in name and name not in kept:
            storage.delete(where, name)


def partition_name(method: str) -> str:
    """Return the partition of a method's pairs and model."""
    return f"method={method}"
