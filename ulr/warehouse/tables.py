"""The warehouse: tables as Parquet files under one root, published whole or not at all.

    ROOT/TABLE/PARTITION/manifest.json        which folder is the table now, and where it came from
    ROOT/TABLE/PARTITION/FINGERPRINT-N/*.parquet

Files are written into a folder that nothing refers to; replacing the small manifest publishes
them. A crash before that leaves the old table as it was, and the next writer sweeps up. The folder
that was just replaced stays until the next publication, for readers that still have it open.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.errors import UserError
from ulr.version import __version__
from ulr.warehouse.lock import Assure, hold
from ulr.warehouse.schema import SCHEMA_VERSION
from ulr.warehouse.storage import Storage

MADE_BY = {"quarantine": "groups", "joint_propensities": "propensities", "models": "train",
           "diagnostics": "propensities", "metrics": "evaluate", "scores": "score"}  # fmt: skip
MANIFEST = "manifest.json"
IN_PROGRESS = "_begun"  # in a draft's folder until it is published: gone, the folder was swept


@dataclass(frozen=True)
class Manifest:
    """What is known about a published partition of a table."""

    table: str
    partition: str
    fingerprint: str
    folder: str
    previous: str | None
    files: list[str]
    counts: dict[str, int]
    inputs: Any
    settings: dict[str, Any]
    schema_version: int = SCHEMA_VERSION
    version: str = __version__


@dataclass(frozen=True)
class Outcome:
    """What became of a request for a table; skipped: it was there already, unchanged."""

    manifest: Manifest
    skipped: bool

    def to_json(self) -> dict[str, Any]:
        """For scripts; the path is below the warehouse."""
        made = self.manifest
        path = f"{_join(made.table, made.partition)}/{made.folder}"
        return {"table": made.table, "partition": made.partition, "skipped": self.skipped,
                "path": path, "counts": made.counts}  # fmt: skip


class WriteTransaction:
    """A partition that is being written. `url` is the folder for its files."""

    def __init__(
        self, storage: Storage, table: str, partition: str, folder: str, assure: Assure
    ) -> None:
        self._storage, self._table, self._partition = storage, table, partition
        self._folder, self._assure = folder, assure
        storage.write_text("", _join(table, partition), folder, IN_PROGRESS)
        self.url = storage.child(table, *filter(None, [partition]), folder)

    def publish(
        self, identity: str, *, counts: dict[str, int], inputs: Any, settings: dict[str, Any]
    ) -> Manifest:
        """Make the files the table's content, from one moment to the next.

        Refused where another run may have swept them away: no files is a table too.
        """
        where = _join(self._table, self._partition)
        self._assure()
        if not self._storage.exists(where, self._folder, IN_PROGRESS):
            raise UserError(
                f"{where}/{self._folder}: what was written there is gone; nothing was published, "
                "run again"
            )
        self._storage.delete(where, self._folder, IN_PROGRESS)
        start = len(f"{where}/{self._folder}/")
        current = self._storage.read_json(where, MANIFEST) or {}
        manifest = Manifest(
            table=self._table,
            partition=self._partition,
            fingerprint=identity,
            folder=self._folder,
            previous=current.get("folder"),
            files=[f.path[start:] for f in self._storage.files(where, self._folder)],
            counts=dict(sorted(counts.items())),
            inputs=inputs,
            settings=settings,
        )
        self._storage.write_json(vars(manifest), where, MANIFEST)
        _sweep(self._storage, where)
        return manifest


class Warehouse:
    """All tables under one root."""

    def __init__(self, url: str) -> None:
        self.storage = Storage(url)

    def current(self, table: str, partition: str = "") -> Manifest | None:
        """What is published, or None."""
        content = self.storage.read_json(_join(table, partition), MANIFEST)
        return Manifest(**content) if content else None

    def partitions(self, table: str) -> list[str]:
        """The published partitions, sorted."""
        names = self.storage.folders(table)
        return [n for n in names if self.storage.exists(_join(table, n), MANIFEST)]

    def files(self, table: str, partition: str = "") -> list[str]:
        """The published files, as the filesystem names them."""
        manifest = self.current(table, partition)
        if manifest is None:
            what = f"{table} {partition}".strip()
            there = self.partitions(table)
            stage = MADE_BY.get(table, table)
            hint = f"there is {there[0]} to {there[-1]}" if there else f"run `ulr {stage}` first"
            raise UserError(f"the warehouse {self.storage.shown()} has no {what}; {hint}")
        where = _join(table, partition)
        return [self.storage.path(where, manifest.folder, name) for name in manifest.files]

    def read(self, table: str, partition: str = "") -> pa.Table:
        """All rows of a small table."""
        files = self.files(table, partition)
        return pa.concat_tables(pq.read_table(f, filesystem=self.storage.fs) for f in files)

    @contextlib.contextmanager
    def writing(self, table: str, partition: str, identity: str) -> Iterator[WriteTransaction]:
        """Hold the partition's lock and offer a fresh folder; unpublished, it is swept away."""
        where = _join(table, partition)
        with hold(self.storage, where, f"{table} {partition}".strip()) as assure:
            _sweep(self.storage, where)
            taken = set(self.storage.folders(where))
            names = (f"{identity}-{n}" for n in range(1, len(taken) + 2))
            free = next(n for n in names if n not in taken)
            try:
                yield WriteTransaction(self.storage, table, partition, free, assure)
            finally:
                with contextlib.suppress(UserError):  # a successor's files are not ours to sweep
                    assure()
                    _sweep(self.storage, where)


def _join(table: str, partition: str) -> str:
    return f"{table}/{partition}" if partition else table


def _sweep(storage: Storage, where: str) -> None:
    """Remove folders that neither the manifest nor its predecessor named."""
    manifest = storage.read_json(where, MANIFEST) or {}
    kept = {manifest.get("folder"), manifest.get("previous")}
    for name in storage.folders(where):
        if "=" not in name and name not in kept:
            storage.delete(where, name)


def partition_name(method: str) -> str:
    """Return the partition of a method's pairs."""
    return f"method={method}"
