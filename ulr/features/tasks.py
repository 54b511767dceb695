"""Gather a window: all groups and feature rows of a query meet in one task, which joins them.

Map tasks read files and send each reducer its queries; a reducer writes one file of the table
`window`. There is one shuffle. Before it, feature rows of queries that were not shown are dropped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ulr.engine.blocks import open_table, partition_blocks
from ulr.engine.columns import hashes
from ulr.engine.interface import Batches, Blocks, Engine, Exchange, Items
from ulr.features.files import FeatureFiles, folder_day
from ulr.features.join import join_features
from ulr.features.layout import day_field
from ulr.features.shown import ShownQueries
from ulr.features.source import FeatureSource, Rows, feature_rows
from ulr.features.versions import in_own_order
from ulr.groups.histograms import partition_of
from ulr.groups.levels import CLICKS, names_in, with_levels
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.schema import features_schema, groups_schema
from ulr.warehouse.storage import StoredFile
from ulr.warehouse.table_files import TableFiles

ROW_GROUP = 8192  # queries
_FILTER_FROM = 8 << 20  # bytes of features from which a pass over the groups pays off
_SENT_BYTES = 64 << 20  # held in a map task before they are sent
_COLUMNS = ["query_id", "segment", "ranking", "doc_ids", "patterns", "counts"]  # of groups
_groups_schema = pa.schema([groups_schema.field(name) for name in _COLUMNS])


@dataclass(frozen=True)
class WindowFiles:
    """Files of groups, on the filesystem of `groups_url`, and of features.

    levels: of feedback in the window.
    """

    groups_url: str
    groups: Sequence[StoredFile]
    features: FeatureSource
    levels: Sequence[str] = CLICKS

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return self.features.size + sum(file.size for file in self.groups)


def write_window(
    engine: Engine,
    files: WindowFiles,
    *,
    url: str,
    partitions: int,
    filter_from: int = _FILTER_FROM,
) -> Counter[str]:
    """Write one file per partition under `url`; return the counts.

    filter_from: bytes of features from which the shown queries are collected first.
    """
    shown = None
    if files.features.size >= filter_from:
        shown = engine.share(shown_queries(engine, files))
    send_groups = partial(
        _send_groups,
        url=files.groups_url,
        levels=files.levels,
        by_day=files.features.by_day,
        partitions=partitions,
    )
    send_features = partial(_send_features, partitions=partitions)
    groups = Items(files.groups, [file.size for file in files.groups])
    features = feature_rows(files.features, send_features, shown=shown)
    join = partial(_join_partition, url=url, ordered=isinstance(files.features, FeatureFiles))
    try:
        batches = engine.map(Exchange([(groups, send_groups), features], partitions), join)
    finally:
        if shown is not None:
            shown.close()
    total = Counter(queries=0, groups=0, documents=0)
    for batch in batches:  # one per file
        total.update(json.loads(batch["counts"][0].as_py()))
    return total


def shown_queries(engine: Engine, files: WindowFiles) -> ShownQueries:
    """Return the set of queries in the groups; the driver collects 8 bytes for each."""
    source = Items(files.groups, [file.size for file in files.groups])
    batches = engine.map(source, partial(_query_hashes, url=files.groups_url))
    return ShownQueries.of([batch["hashes"].to_numpy() for batch in batches])


def _query_hashes(files: list[StoredFile], *, url: str) -> Batches:
    fs, _ = open_filesystem(url)
    found = [np.zeros(0, np.uint64)]
    for file in files:
        ids = pq.read_table(file.path, columns=["query_id"], filesystem=fs, use_threads=False)
        found.append(np.unique(hashes(ids["query_id"])))
    every = np.unique(np.concatenate(found))
    yield pa.RecordBatch.from_pydict({"hashes": pa.array(every)})


def _send_groups(
    files: list[StoredFile], *, url: str, levels: Sequence[str], by_day: bool, partitions: int
) -> Blocks:
    return _send("groups", _read_groups(files, url, levels, by_day), partitions)


def _send_features(rows: Rows, *, partitions: int) -> Blocks:
    """Send feature rows in batches with a column `order`: their order over all files."""
    numbered = (
        table.append_column("order", pa.array(np.full(table.num_rows, order)))
        for order, table in rows
    )
    return _send("features", numbered, partitions)


def _send(kind: str, tables: Iterator[pa.Table], partitions: int) -> Blocks:
    for table in _in_large_batches(tables):
        yield from partition_blocks(kind, table, partition_of(table, partitions))


def _read_groups(
    files: list[StoredFile], url: str, levels: Sequence[str], by_day: bool
) -> Iterator[pa.Table]:
    fs, _ = open_filesystem(url)
    for file in files:
        table = pq.read_table(file.path, columns=_COLUMNS, filesystem=fs, use_threads=False)
        table = with_levels(table, names_in(table.schema), levels).cast(_groups_schema)
        if by_day:
            day = np.full(table.num_rows, folder_day(file.path, "dt"), np.int32)
            table = table.append_column(day_field, pa.array(day))
        yield table


def _in_large_batches(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield several tables as one: a block of few rows costs as much as one of many."""
    pending: list[pa.Table] = []
    size = 0
    for table in tables:
        pending.append(table)
        size += table.nbytes
        if size >= _SENT_BYTES:
            yield pa.concat_tables(pending)
            pending, size = [], 0
    if pending:
        yield pa.concat_tables(pending)


def _join_partition(blocks: Blocks, *, url: str, ordered: bool) -> Batches:
    """Join and write one partition. Equal input gives equal bytes, so a retry overwrites.

    ordered: whether the feature rows have an order.
    """
    tables_of: dict[str, list[pa.Table]] = {"groups": [], "features": []}
    number = 0
    for part, kind, content in blocks:
        number = part
        tables_of[kind].append(open_table(content))
    if not tables_of["groups"]:
        return
    # Blocks come in any order; the first of several feature rows must be the same one.
    in_order = sorted(tables_of["features"], key=lambda table: int(table["order"][0].as_py()))
    tables = [table.drop_columns("order") for table in in_order]
    features = pa.concat_tables(tables or [features_schema.empty_table()])
    if not ordered:
        features = in_own_order(features)
    window = join_features(pa.concat_tables(tables_of["groups"]), features)
    if window.num_rows == 0:
        return
    size = TableFiles(url).write_table(window, f"part-{number:05d}.parquet", row_group=ROW_GROUP)
    counts = {
        "queries": window.num_rows,
        "groups": len(window["group_sizes"].combine_chunks().values),
        "documents": len(window["doc_ids"].combine_chunks().values),
        "bytes": size,
    }
    yield pa.RecordBatch.from_pydict({"counts": [json.dumps(counts)]})
