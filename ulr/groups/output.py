"""The reduce side of the groups: the tables of one partition of a date, merged and written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.engine.blocks import open_table
from ulr.groups import logged, rankers
from ulr.groups.folding import GROUPS
from ulr.groups.histograms import with_context
from ulr.groups.levels import schema_with
from ulr.groups.parts import GroupsPart
from ulr.groups.pending import Merged
from ulr.warehouse.table_files import TableFiles


@dataclass(frozen=True)
class Targets:
    """Where the tables of a date are written. features: None if the log's are not read.

    levels: names of the levels of feedback. names: of the features.
    """

    groups: str
    quarantine: str
    features: str | None = None
    levels: tuple[str, ...] = ()
    names: Sequence[str] = field(default_factory=tuple)


class Output:
    """The groups of one reducer, and what pages recorded besides."""

    def __init__(self, targets: Targets) -> None:
        self._targets = targets
        self._groups = GroupsPart()
        self._rankers = Merged(rankers.merge_rankers)
        self._features = Merged(logged.merge_features)
        self._parts: dict[str, GroupsPart | Merged] = {
            GROUPS: self._groups, rankers.KIND: self._rankers, logged.KIND: self._features
        }  # fmt: skip

    def add(self, kind: str, content: pa.Buffer) -> None:
        """Add the table of a block."""
        self._parts[kind].add(open_table(content))

    def add_written(self, part: int) -> None:
        """Add the files that `write` has written, so that pages can be subtracted from them."""
        groups, features = TableFiles(self._targets.groups), self._targets.features
        for table in _read(groups, file_name(part)):
            self._groups.add(with_context(table))
        for table in _read(groups, rankers.FILE_PREFIX + file_name(part)):
            self._rankers.add(table)
        if features is not None:
            for table in _read(TableFiles(features), file_name(part)):
                self._features.add(table)

    def write(self, part: int, suffix: str = "") -> Counter[str]:
        """Write the files of a partition, those with rows, and return their counts."""
        name, groups = file_name(part, suffix), TableFiles(self._targets.groups)
        counts = self._groups.write(groups, name, schema_with(self._targets.levels))
        counted = self._rankers.table()
        if counted is not None and (rows := rankers.sorted_rankers(counted)).num_rows:
            groups.write_table(rows, rankers.FILE_PREFIX + name)
            counts["ranker_rows"] += rows.num_rows
        counts.update(self.write_features(part, suffix))
        return counts

    def write_features(self, part: int, suffix: str) -> Counter[str]:
        """Write the file of features of a partition, if it has rows, and return its counts."""
        table, counts = self._features.table(), Counter[str]()
        if table is None or self._targets.features is None:
            return counts
        counts["stale_features"] = logged.count_stale(table)
        rows = logged.sorted_features(table).cast(logged.schema_named(self._targets.names))
        if rows.num_rows:
            target = TableFiles(self._targets.features)
            counts["features_bytes"] = target.write_table(rows, file_name(part, suffix))
            counts["features"] = rows.num_rows
        return counts


def remove_files(targets: Targets, part: int, suffix: str = "") -> None:
    """Remove the files of a partition that `write` has replaced under another suffix."""
    name, groups = file_name(part, suffix), TableFiles(targets.groups)
    groups.delete(name)
    groups.delete(rankers.FILE_PREFIX + name)
    remove_features(targets, part, suffix)


def remove_features(targets: Targets, part: int, suffix: str = "") -> None:
    """Remove the file of features of a partition."""
    if targets.features is not None:
        TableFiles(targets.features).delete(file_name(part, suffix))


def file_name(part: int, suffix: str = "") -> str:
    """Return the name of the file of a partition."""
    return f"part-{part:05d}{suffix}.parquet"


def _read(storage: TableFiles, name: str) -> list[pa.Table]:
    if not storage.exists(name):
        return []
    with storage.fs.open_input_file(storage.path(name)) as stream:
        return [pa.Table.from_batches([b]) for b in pq.ParquetFile(stream).iter_batches()]
