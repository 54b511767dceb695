"""The queries of pair files: their sizes, and a sample of their rows for the bins.

Two passes over the files, one table per file each. `run` decides where the passes run: in
tasks, or on threads of a single worker.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from ulr.engine.columns import hashes, lists, whole
from ulr.errors import InvalidData
from ulr.features.split import sample_queries
from ulr.kernels.layout import offsets_of
from ulr.training.bins import in_sample
from ulr.training.data import feature_width
from ulr.training.distributed.pair_files import PairFiles, read_batches

FileFunction = Callable[[int], pa.Table]  # of the index of a file
RunOnFiles = Callable[[FileFunction], list[pa.Table]]  # tables with rows, in the order of files
_INDEXED = ("query_id", "labels", "positions", "pair_counts")
_SAMPLED = ("query_id", "labels", "features")
_index_schema = pa.schema(
    [("file", pa.int32()), ("group", pa.int32()), ("rows", pa.int32()), ("pairs", pa.int64()),
     ("max_position", pa.int32()), ("validation", pa.bool_())]
)  # fmt: skip


@dataclass(frozen=True)
class QueryIndex:
    """One entry per query, in the order of the files and of the rows within them.

    file    int32   index of the file in PairFiles.all
    group   int32   row group of the file
    rows    int32   number of documents
    pairs   int64   number of pairs
    validation  bool  whether the query is held out for validation
    """

    file: np.ndarray
    group: np.ndarray
    rows: np.ndarray
    pairs: np.ndarray
    validation: np.ndarray
    width: int
    max_position: int


def run_on_threads(files: int, threads: int) -> RunOnFiles:
    """Return a runner for that many files that uses threads of this process."""

    def run(function: FileFunction) -> list[pa.Table]:
        with ThreadPoolExecutor(min(threads, files)) as pool:
            return [table for table in pool.map(function, range(files)) if table.num_rows]

    return run


def build_query_index(run: RunOnFiles, source: PairFiles) -> QueryIndex:
    """Return the index of all queries."""
    tables = run(partial(_index_file, source=source))
    if not tables:
        raise InvalidData(
            "the pairs table is empty, no query has a pair; run `ulr pairs` to see why"
        )
    table = pa.concat_tables(tables)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    max_position = int(columns.pop("max_position").max())
    _, first = next(read_batches(source, int(columns["file"][0]), columns=_SAMPLED))
    return QueryIndex(**columns, width=feature_width(first), max_position=max_position)


def sample_rows(run: RunOnFiles, source: PairFiles, index: QueryIndex) -> np.ndarray:
    """Return a sample of the training rows (float32, rows x width) for the bins.

    The sample does not depend on how the rows are split into files.
    """
    total = int(index.rows[~index.validation].sum())
    train = np.split(~index.validation, np.searchsorted(index.file, np.arange(1, len(source.all))))
    sample = partial(_sample_file, source=source, train=train, total=total, width=index.width)
    rows = pa.concat_tables(run(sample))
    features = whole(rows["features"]).flatten().to_numpy().reshape(-1, index.width)
    return features[np.argsort(rows["key"].to_numpy(), kind="stable")]


def _index_file(file: int, *, source: PairFiles) -> pa.Table:
    tables = [_index_batch(batch, file, group, source)
              for group, batch in read_batches(source, file, columns=_INDEXED)]  # fmt: skip
    return pa.concat_tables([_index_schema.empty_table(), *tables])


def _index_batch(queries: pa.Table, file: int, group: int, source: PairFiles) -> pa.Table:
    names = whole(queries["query_id"])
    validation = np.full(len(names), file >= len(source.files))
    if not source.validation_files:
        validation = sample_queries(names, source.validation_fraction, "validation")
    positions = lists(queries["positions"]).values.to_numpy(zero_copy_only=False)
    pairs = lists(queries["pair_counts"])
    before = offsets_of(pairs.values.to_numpy(zero_copy_only=False))
    columns = [
        np.full(len(names), file, np.int32),
        np.full(len(names), group, np.int32),
        lists(queries["labels"]).lengths.astype(np.int32),
        before[pairs.starts + pairs.lengths] - before[pairs.starts],
        np.full(len(names), positions.max(initial=1), np.int32),
        validation,
    ]
    return pa.table(columns, schema=_index_schema)


def _sample_file(
    file: int, *, source: PairFiles, train: list[np.ndarray], total: int, width: int
) -> pa.Table:
    """Return the sampled rows of a file, and a hash (uint64) of the query of each row."""
    schema = pa.schema([("key", pa.uint64()), ("features", pa.list_(pa.float32(), width))])
    tables, start = [schema.empty_table()], 0
    for _, queries in read_batches(source, file, columns=_SAMPLED):
        is_train = train[file][start : start + queries.num_rows]
        start += queries.num_rows
        feature_width(queries, width)
        keys, sizes = hashes(queries["query_id"]), lists(queries["labels"]).lengths
        sampled = in_sample(keys, sizes, total) & np.repeat(is_train, sizes)
        features = whole(queries["features"]).flatten().to_numpy().reshape(-1, width)[sampled]
        rows = pa.FixedSizeListArray.from_arrays(features.reshape(-1), width)
        tables.append(pa.table([np.repeat(keys, sizes)[sampled], rows], schema=schema))
    return pa.concat_tables(tables).combine_chunks()
