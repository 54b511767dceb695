"""Read published pair files and shuffle their queries to the training workers.

Two passes without a shuffle build an index of the queries (names and sizes, no features) and draw
a sample of rows for the bins. One shuffle then sends every query to its worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ulr.engine.columns import hashes, lists, whole
from ulr.engine.shuffle import BLOCK, partition_blocks
from ulr.errors import UserError
from ulr.features.split import sample_queries
from ulr.training.bins import in_sample
from ulr.training.data import feature_width
from ulr.training.distributed.task import TRAIN, VALIDATION
from ulr.warehouse.schema import pairs_schema
from ulr.warehouse.storage import open_filesystem

Batches = Iterator[pa.RecordBatch]
READ_QUERIES = 512  # per batch: some megabytes of features
_INDEX_SCHEMA = "file int, key long, rows int, pairs long, max_position int, validation boolean"
_INDEXED = ["query_id", "doc_ids", "positions", "pair_i"]
_SAMPLED = ["query_id", "doc_ids", "features"]


@dataclass(frozen=True)
class PairFiles:
    """Parquet files of the pairs schema.

    The validation queries are those of `validation_files` or, if there are none, a sample of the
    queries, drawn by hashing their names.
    """

    url: str
    files: Sequence[str]
    validation_fraction: float = 0.0
    validation_files: Sequence[str] = ()

    @property
    def all(self) -> list[str]:
        """All files; the validation files are last."""
        return [*self.files, *self.validation_files]


@dataclass(frozen=True)
class QueryIndex:
    """One entry per query, in the order of the files and of the rows within them.

    file    int32   index of the file in PairFiles.all
    key     uint64  hash of the query's name
    rows    int32   number of documents
    pairs   int64   number of pairs
    validation  bool  whether the query is held out for validation
    """

    file: np.ndarray
    key: np.ndarray
    rows: np.ndarray
    pairs: np.ndarray
    validation: np.ndarray
    width: int
    max_position: int

    def by_file(self, values: np.ndarray, files: int) -> list[np.ndarray]:
        """Split an array with one value per query by the queries' files."""
        return np.split(values, np.searchsorted(self.file, np.arange(1, files)))


def build_query_index(spark: SparkSession, source: PairFiles) -> QueryIndex:
    """Return the index of all queries."""
    table = _on_files(spark, source, partial(_index, source=source), _INDEX_SCHEMA).toArrow()
    if not table.num_rows:
        raise UserError("the pairs table is empty: no query has a pair; see the counts of `pairs`")
    columns = {name: table[name].to_numpy() for name in table.column_names}
    order = np.argsort(columns["file"], kind="stable")  # the rows of a file arrive in order
    columns = {name: column[order] for name, column in columns.items()}
    columns["key"] = columns["key"].view(np.uint64)
    max_position = int(columns.pop("max_position").max())
    width = _width(source, int(columns["file"][0]))
    return QueryIndex(**columns, width=width, max_position=max_position)


def sample_rows(spark: SparkSession, source: PairFiles, index: QueryIndex) -> np.ndarray:
    """Return a sample of the training rows (float32, rows x width) for the bins.

    The sample does not depend on how the rows are split into files.
    """
    total = int(index.rows[~index.validation].sum())
    train = index.by_file(~index.validation, len(source.all))
    sample = partial(_sample, source=source, train=train, total=total, width=index.width)
    rows = _on_files(spark, source, sample, "key long, features array<float>").toArrow()
    rows = rows.take(pa.array(np.argsort(rows["key"].to_numpy().view(np.uint64), kind="stable")))
    return lists(rows["features"]).values.to_numpy().reshape(-1, index.width)


def shuffle_to_workers(
    spark: SparkSession, source: PairFiles, index: QueryIndex, rank: np.ndarray, workers: int
) -> DataFrame:
    """Return blocks of whole queries in one partition per worker.

    rank: int32, the worker of each query.
    """
    files = len(source.all)
    send = partial(_send, source=source, ranks=index.by_file(rank, files),
                   validation=index.by_file(index.validation, files))  # fmt: skip
    blocks = _on_files(spark, source, send, BLOCK)
    return blocks.repartitionById(workers, F.col("part") % workers)


def _on_files(
    spark: SparkSession, source: PairFiles, task: partial[Batches], schema: str
) -> DataFrame:
    """Run one task per file; the input of a task is the index of its file."""
    files = len(source.all)
    return spark.range(0, files, 1, files).mapInArrow(task, schema)


def _read(
    batches: Batches, source: PairFiles, columns: list[str] | None
) -> Iterator[tuple[int, int, pa.Table]]:
    """Yield batches of queries: index of the file, index of the first query in it, queries."""
    fs, _ = open_filesystem(source.url)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            start = 0
            with pq.ParquetFile(source.all[number], filesystem=fs) as file:
                for rows in file.iter_batches(READ_QUERIES, columns=columns, use_threads=False):
                    yield number, start, pa.Table.from_batches([rows])
                    start += rows.num_rows


def _index(batches: Batches, *, source: PairFiles) -> Batches:
    for number, _, table in _read(batches, source, _INDEXED):
        names = whole(table["query_id"])
        validation = np.full(len(names), number >= len(source.files))
        if not source.validation_files:
            validation = sample_queries(names, source.validation_fraction, "validation")
        positions = lists(table["positions"]).values.to_numpy(zero_copy_only=False)
        columns = {
            "file": np.full(len(names), number, np.int32),
            "key": hashes(names).view(np.int64),
            "rows": lists(table["doc_ids"]).lengths.astype(np.int32),
            "pairs": lists(table["pair_i"]).lengths,
            "max_position": np.full(len(names), positions.max(initial=1), np.int32),
            "validation": validation,
        }
        yield pa.RecordBatch.from_pydict(columns)


def _width(source: PairFiles, number: int) -> int:
    """Return the number of features in the first queries of a file."""
    numbers = iter([pa.record_batch({"id": [number]})])
    _, _, table = next(_read(numbers, source, _SAMPLED))
    return feature_width(table)


def _sample(
    batches: Batches, *, source: PairFiles, train: list[np.ndarray], total: int, width: int
) -> Batches:
    for number, start, queries in _read(batches, source, _SAMPLED):
        is_train = train[number][start : start + queries.num_rows]
        table = queries.filter(pa.array(is_train)).combine_chunks()
        if not table.num_rows:
            continue
        keys, sizes = hashes(table["query_id"]), lists(table["doc_ids"]).lengths
        feature_width(table, width)
        sampled = in_sample(keys, sizes, total)
        features = whole(table["features"]).flatten()
        rows = pa.FixedSizeListArray.from_arrays(features, width).filter(pa.array(sampled))
        key = np.repeat(keys, sizes)[sampled].view(np.int64)
        yield pa.RecordBatch.from_arrays(
            [pa.array(key), rows.cast(pa.list_(pa.float32()))], ["key", "features"]
        )


def _send(
    batches: Batches, *, source: PairFiles, ranks: list[np.ndarray], validation: list[np.ndarray]
) -> Batches:
    for number, start, queries in _read(batches, source, None):
        table = queries.cast(pairs_schema)
        span = slice(start, start + table.num_rows)
        rank, held_out = ranks[number][span].astype(np.int64), validation[number][span]
        for kind, rows in ((TRAIN, ~held_out), (VALIDATION, held_out)):
            if rows.any():
                yield from partition_blocks(kind, table.filter(pa.array(rows)), rank[rows])
