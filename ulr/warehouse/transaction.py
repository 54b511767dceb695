"""A version of a partition from its first file to its publication."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from ulr.errors import PublishedByAnotherRun
from ulr.warehouse.cleanup import remove_unneeded, replaced_versions
from ulr.warehouse.filesystem import PreconditionFailed
from ulr.warehouse.lock import CheckOwner
from ulr.warehouse.manifest import MANIFEST, Manifest
from ulr.warehouse.storage import Storage
from ulr.warehouse.table_files import MARKER, TableFiles


@dataclass(frozen=True)
class Current:
    """The manifest of a partition and the version of its file; both None if there is none.

    manifest: also None if the file is damaged.
    """

    manifest: Manifest | None
    version: str | None


class WriteTransaction:
    """An unpublished version of a partition; its files go into the folder `url`."""

    def __init__(
        self,
        storage: Storage,
        draft: Manifest,
        current: Current,
        *,
        check_owner: CheckOwner,
        keep_days: float,
        by_content: bool = False,
    ) -> None:
        self._storage, self._draft, self._current = storage, draft, current
        self._check_owner, self._keep_days = check_owner, keep_days
        self._by_content = by_content
        self.url = storage.child(draft.where, draft.folder)
        self.fingerprint = draft.fingerprint
        self.manifest: Manifest | None = None  # set by publish
        self.may_be_published = False  # also if the store did not answer
        TableFiles(self.url).mark({"host": socket.gethostname(), "pid": os.getpid()})

    def write_table(self, table: pa.Table) -> None:
        """Write a table that is small enough for one file."""
        TableFiles(self.url).write_table(table, "part-00000.parquet")

    def publish(self, counts: Mapping[str, int]) -> Manifest:
        """Make the written files durable, then make them the partition's content in one step.

        Raises if another run has removed the files or has published the partition.
        """
        storage, draft, where = self._storage, self._draft, self._draft.where
        self._check_owner()
        folder = TableFiles(self.url)
        if not folder.exists(MARKER):
            raise PublishedByAnotherRun(
                f"{where}/{draft.folder}: another run removed these files before they were "
                "published; nothing was published, run again"
            )
        manifest = replace(
            draft,
            files=folder.seal(),
            counts=dict(sorted(counts.items())),
            replaced=replaced_versions(self._current.manifest, self._keep_days),
        )
        if self._by_content:
            manifest = replace(manifest, fingerprint=_of_content(manifest))
        self.may_be_published = True
        try:
            storage.swap(manifest.to_bytes(), self._current.version, where, MANIFEST)
        except PreconditionFailed:
            self.may_be_published = False
            raise PublishedByAnotherRun(
                f"{where} was published by another run in the meantime; nothing was published, "
                "run again"
            ) from None
        self.manifest = manifest
        remove_unneeded(storage, where, manifest, self._keep_days, locked=storage.is_local)
        return manifest


def _of_content(manifest: Manifest) -> str:
    """Return the fingerprint of a partition whose inputs are unknown: its settings and files."""
    return hashlib.sha256(f"{manifest.fingerprint} {manifest.content}".encode()).hexdigest()[:16]
