"""The published tables below a folder: their partitions, files, sizes and rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.warehouse.manifest import Manifest
from ulr.warehouse.storage import Storage
from ulr.warehouse.verify import published

_THREADS = 16  # footers are read concurrently; an object store takes tens of milliseconds for each


@dataclass(frozen=True)
class PublishedTable:
    """A table. partitions: by name, "" without partitions; None: the manifest is damaged.

    name: the path of the table below the storage, such as `groups` or `reruns/leaves/pairs`.
    """

    storage: Storage
    name: str
    partitions: Mapping[str, Manifest | None]

    @property
    def manifests(self) -> list[Manifest]:
        """The readable manifests, by partition."""
        return [manifest for manifest in self.partitions.values() if manifest is not None]

    @property
    def damaged(self) -> int:
        """The number of partitions whose manifest is damaged."""
        return len(self.partitions) - len(self.manifests)

    @property
    def files(self) -> int:
        """The number of published files."""
        return sum(len(manifest.files) for manifest in self.manifests)

    @property
    def bytes(self) -> int:
        """The size of all published files."""
        return sum(file.size or 0 for manifest in self.manifests for file in manifest.files)

    def folder(self, partition: str) -> tuple[str, ...]:
        """Return the parts of the path of a partition's published folder."""
        manifest = self.partitions[partition]
        assert manifest is not None
        return tuple(part for part in (self.name, partition, manifest.folder) if part)

    def parquet(self) -> Iterator[tuple[str, str]]:
        """Yield partition and path, below the storage, of every published Parquet file."""
        for partition, manifest in self.partitions.items():
            for file in manifest.files if manifest else ():
                if file.is_data and file.name.endswith(".parquet"):
                    yield partition, "/".join((*self.folder(partition), file.name))

    def schema(self) -> pa.Schema | None:
        """Return the schema of the last partition with a Parquet file, None without one."""
        paths = [path for _, path in self.parquet()]
        if not paths:
            return None
        return pq.read_schema(self.storage.path(paths[-1]), filesystem=self.storage.fs)

    def rows(self) -> int | None:
        """Return the number of rows, from the footers; None if the files are not Parquet.

        Raises OSError or pyarrow.ArrowInvalid if a file is missing or damaged.
        """
        paths = [self.storage.path(path) for _, path in self.parquet()]
        if not paths:
            return None if self.files else 0
        with ThreadPoolExecutor(min(_THREADS, len(paths))) as pool:
            return sum(pool.map(self._rows_of, paths))

    def _rows_of(self, path: str) -> int:
        rows: int = pq.read_metadata(path, filesystem=self.storage.fs).num_rows
        return rows


def published_tables(storage: Storage) -> list[PublishedTable]:
    """Return every table below the folder, those of re-runs included, sorted by name."""
    tables: dict[str, dict[str, Manifest | None]] = {}
    for where, manifest in published(storage):
        folder, _, name = where.rpartition("/")
        table, partition = (folder, name) if "=" in name else (where, "")
        tables.setdefault(table, {})[partition] = manifest
    return [PublishedTable(storage, name, dict(sorted(tables[name].items())))
            for name in sorted(tables)]  # fmt: skip
