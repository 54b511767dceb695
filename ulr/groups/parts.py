"""One reducer's part of the groups, merged and written in bounded memory.

Tables are merged when they exceed PART_BYTES. If merging does not make them small, they are sorted
and moved to a temporary file as a run. At the end, the runs are merged range by range of the sort
key, so that no more than about PART_BYTES are in memory and no Arrow array has more than 2 GiB,
which is as far as 32-bit offsets reach. The written rows do not depend on the number of runs.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.groups.histograms import ORDER, canonical, merge, ordered, remove_zeros
from ulr.warehouse.schema import groups_schema
from ulr.warehouse.storage import Storage

PART_BYTES = 512 << 20  # Arrow bytes of groups that a task holds before it merges or sends them


class GroupsPart:
    """The groups of one reducer, from tables in transit."""

    def __init__(self) -> None:
        self._pending: list[pa.Table] = []
        self._bytes = 0
        self._runs: list[pa.Table] = []
        self._files = ExitStack()

    def add(self, table: pa.Table) -> None:
        self._pending.append(table)
        self._bytes += table.nbytes
        if self._bytes >= PART_BYTES and len(self._pending) > 1:
            merged = merge(self._pending)
            self._pending, self._bytes = [merged], merged.nbytes
            if self._bytes >= PART_BYTES // 2:  # most groups are distinct: merging frees little
                self._move_to_disk()

    def write(self, storage: Storage, name: str, schema: pa.Schema = groups_schema) -> Counter[str]:
        """Write the part as one sorted Parquet file, unless it is empty; return its counts.

        schema: `groups_schema`, with the names of its levels.
        """
        counts: Counter[str] = Counter()
        with self._files:
            tables = self._counted(counts)
            first = next(tables, None)
            if first is not None:
                whole = chain([first], tables)
                named = (table.cast(schema) for table in whole)
                counts["groups_bytes"] = storage.write_tables(named, schema, name)
        return counts

    def _counted(self, counts: Counter[str]) -> Iterator[pa.Table]:
        last_query = None
        for table in self._sorted_tables():
            queries = table["query_id"]
            counts["groups"] += table.num_rows
            counts["queries"] += pc.count_distinct(queries).as_py()
            counts["queries"] -= queries[0].as_py() == last_query  # spans two tables
            longest = pc.max(pc.list_value_length(table["doc_ids"])).as_py()
            counts["longest"] = max(counts["longest"], longest)
            counts["patterns"] += pc.sum(pc.list_value_length(table["counts"])).as_py()
            last_query = queries[-1].as_py()
            yield table

    def _sorted_tables(self) -> Iterator[pa.Table]:
        """Yield the merged groups in the order of the sort key, without empty tables."""
        if self._runs:
            self._move_to_disk()
            pieces = _ranges(self._runs)
        else:
            pieces = iter([self._pending])
        for tables in pieces:
            groups = canonical(remove_zeros(merge(tables)))
            if groups.num_rows:
                yield groups

    def _move_to_disk(self) -> None:
        """Sort the pending groups and move them to a memory-mapped file."""
        if not self._pending:
            return
        run = ordered(merge(self._pending))
        self._pending, self._bytes = [], 0
        path = self._files.enter_context(tempfile.TemporaryDirectory(prefix="ulr-")) + "/run.arrow"
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, run.schema) as writer:
            writer.write_table(run)
        mapped = self._files.enter_context(pa.memory_map(path))
        self._runs.append(pa.ipc.open_file(mapped).read_all())


def _ranges(runs: list[pa.Table]) -> Iterator[list[pa.Table]]:
    """Cut sorted runs at common keys, into pieces of about PART_BYTES for all runs together."""
    keys = pa.concat_tables([run.select([*(n for n, _ in ORDER), "context"]) for run in runs])
    order = pc.sort_indices(keys, sort_keys=ORDER).to_numpy()
    count = min(order.size, -(-sum(run.nbytes for run in runs) // PART_BYTES))
    number = np.arange(order.size) * count // order.size
    # Equal keys are adjacent and must not be cut apart: all take the number of the first.
    context = keys["context"].to_numpy()[order]
    ranking = keys["ranking"].to_numpy()[order]
    first = np.append(True, (context[1:] != context[:-1]) | (ranking[1:] != ranking[:-1]))
    number = number[np.flatnonzero(first)][np.cumsum(first) - 1]
    row_number = np.empty(order.size, np.int64)
    row_number[order] = number
    starts = np.cumsum([0, *(run.num_rows for run in runs)])
    cuts = [
        np.searchsorted(row_number[a:b], np.arange(count + 1)) for a, b in pairwise(starts)
    ]  # a run is sorted by key, thus by number
    for n in range(count):
        yield [run.slice(cut[n], cut[n + 1] - cut[n]) for run, cut in zip(runs, cuts, strict=True)]
