"""The folder of one version of a table: its files, their hashes, and the marker of its owner.

A task hashes a file while it writes it, and stores the hash beside it until publication. The
driver never reads the data again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from ulr.warehouse.manifest import PublishedFile
from ulr.warehouse.storage import Storage, StoredFile
from ulr.warehouse.streams import HashingFile, Written

# Marks a folder that a run of ulr has created; folders without it are never removed.
MARKER = "_ulr.json"
_HASH = "_sha256."  # prefix of the files that hold hashes


class TableFiles(Storage):
    """The folder of an unpublished version. Files written here are recorded with their hashes."""

    def _replace(
        self, target: str, write: Callable[[HashingFile], Any], *, durable: bool = False
    ) -> Written:
        # Publication flushes all files at once.
        written = super()._replace(target, write)
        folder, _, name = target.rpartition("/")
        record = json.dumps([written.size, written.sha256]).encode()
        super()._replace(f"{folder}/{_HASH}{name}", lambda file: file.write(record))
        return written

    def delete(self, *parts: str) -> None:
        """Delete a file and its hash, or the folder."""
        super().delete(*parts)
        if parts:
            super().delete(*parts[:-1], _HASH + parts[-1])

    def mark(self, content: dict[str, Any]) -> None:
        """Write the marker of a folder that this run has created."""
        text = json.dumps(content).encode()
        super()._replace(self.path(MARKER), lambda file: file.write(text))

    def seal(self) -> list[PublishedFile]:
        """Make all files durable and return them, sorted by name; their hash files are deleted."""
        listed = {file.path: file for file in self.all_files()}
        hashes = [name for name in listed if name.startswith(_HASH)]
        files = [
            self._entry(file, _HASH + file.path in listed)
            for file in listed.values()
            if file.path != MARKER and not file.path.startswith(_HASH)
        ]
        for name in hashes:
            super().delete(name)
        self.make_durable()
        return files

    def _entry(self, file: StoredFile, recorded: bool) -> PublishedFile:
        if recorded:
            size, sha256 = json.loads(self.read_text(_HASH + file.path))
            if size == file.size:
                return PublishedFile(file.path, size, sha256)
        return PublishedFile(file.path, file.size, self.hash_of(file.path))


def damaged_files(folder: Storage, files: list[PublishedFile], *, hashes: bool) -> Iterator[str]:
    """Yield a message for each file that is missing, or has another size or hash than published.

    hashes: read every file and compare its hash too.
    """
    sizes = folder.sizes([file.name for file in files])
    for file, size in zip(files, sizes, strict=True):
        path = folder.shown(file.name)
        if size is None:
            yield f"{path} is missing"
        elif file.size is not None and size != file.size:
            yield f"{path} has {size} bytes instead of {file.size}"
        elif size == 0 and file.size is None:
            yield f"{path} is empty"
        elif hashes and file.sha256 and folder.hash_of(file.name) != file.sha256:
            yield f"{path} has been altered: its SHA-256 differs from the one published"
