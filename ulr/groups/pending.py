"""Tables that a task holds until it sends or writes them, merged when there are many."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from ulr.engine.blocks import partition_blocks
from ulr.engine.interface import Blocks
from ulr.groups.histograms import partition_of
from ulr.groups.parts import PART_BYTES

MERGE_ROWS = 1_000_000  # held in memory before they are merged

# Adds up tables of one kind; the result may be ordered by partition, where there are several.
Merge = Callable[[Sequence[pa.Table], int], pa.Table]


class Pending:
    """Tables of one kind in a map task. If merging does not make them small, they are sent."""

    def __init__(self, kind: str, merge: Merge, partitions: int) -> None:
        self._kind, self._merge, self._partitions = kind, merge, partitions
        self._tables: list[pa.Table] = []
        self._rows = self._bytes = 0

    def add(self, table: pa.Table) -> Blocks:
        self._hold([*self._tables, table])
        if self._full(1):
            self._hold([self._merge(self._tables, 1)])
            if self._full(2):  # most keys are distinct: merging frees little
                yield from self.send()

    def send(self) -> Blocks:
        """Yield everything that is held as blocks by query."""
        if not self._tables:
            return
        merged = self._merge(self._tables, self._partitions)
        self._hold([])
        if merged.num_rows:
            part = partition_of(merged, self._partitions)
            yield from partition_blocks(self._kind, merged, part)

    def _hold(self, tables: list[pa.Table]) -> None:
        self._tables = tables
        self._rows = sum(t.num_rows for t in tables)
        self._bytes = sum(t.nbytes for t in tables)

    def _full(self, divisor: int) -> bool:
        return self._rows >= MERGE_ROWS // divisor or self._bytes >= PART_BYTES // divisor


class Merged:
    """Tables of one kind in a reducer, merged as they grow."""

    def __init__(self, merge: Merge) -> None:
        self._merge = merge
        self._tables: list[pa.Table] = []
        self._bytes = 0
        self._limit = PART_BYTES

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._bytes += table.nbytes
        if self._bytes >= self._limit and len(self._tables) > 1:
            self.table()
            self._limit = max(PART_BYTES, 2 * self._bytes)

    def table(self) -> pa.Table | None:
        """Return the sum of all tables, None if there was none."""
        if not self._tables:
            return None
        merged = self._merge(self._tables, 1)
        self._tables, self._bytes = [merged], merged.nbytes
        return merged
