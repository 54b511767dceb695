"""Published pair tables, from files to the partitions that will be workers.

Two light passes first: a census of the queries (names, sizes; no features), and a sample of rows
for the bins. Then one shuffle brings every query whole to its worker.
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
from ulr.training.distributed.task import TRAIN, VALIDATION
from ulr.warehouse.schema import pairs_schema
from ulr.warehouse.storage import open_filesystem

Batches = Iterator[pa.RecordBatch]
READ_ROWS = 512  # queries at a time: some megabytes of features
_CENSUS = "file int, key long, rows int, pairs long, deepest int, aside boolean"
_COUNTED = ["query_id", "doc_ids", "positions", "pair_i"]


@dataclass(frozen=True)
class PairFiles:
    """Parquet files of the pairs schema; validation queries by share of names, or in own files."""

    url: str
    files: Sequence[str]
    validation_fraction: float = 0.0
    validation_files: Sequence[str] = ()

    @property
    def all(self) -> list[str]:
        """Every file, those for validation last."""
        return [*self.files, *self.validation_files]


@dataclass(frozen=True)
class QueryIndex:
    """One entry per query, in the order of files and of rows within them."""

    file: np.ndarray
    key: np.ndarray
    rows: np.ndarray
    pairs: np.ndarray
    aside: np.ndarray
    width: int
    deepest: int


def build_query_index(spark: SparkSession, source: PairFiles) -> QueryIndex:
    """Count every query."""
    files = _numbered(spark, source)
    counted = files.mapInArrow(partial(_count, source=source), _CENSUS).toArrow()
    if not counted.num_rows:
        raise UserError("the pairs table is empty: no query has a pair; see the counts of `pairs`")
    columns = {name: counted[name].to_numpy() for name in counted.column_names}
    order = np.argsort(columns["file"], kind="stable")  # within a file they come in order
    columns = {name: column[order] for name, column in columns.items()}
    columns["key"] = columns["key"].view(np.uint64)
    deepest = int(columns.pop("deepest").max())
    return QueryIndex(**columns, width=_width(source, int(columns["file"][0])), deepest=deepest)


def take_sample(spark: SparkSession, source: PairFiles, chosen: np.ndarray, census: QueryIndex
) -> np.ndarray:  # fmt: skip
    """Rows (float32) of the chosen queries for the bins; the same however the files are cut."""
    total = int(census.rows[chosen].sum())
    per_file = _per_file(census, np.where(chosen, 0, -1), len(source.all))
    take = partial(_sample, source=source, chosen=per_file, total=total, width=census.width)
    kept = _numbered(spark, source).mapInArrow(take, "key long, features array<float>").toArrow()
    kept = kept.take(pa.array(np.argsort(kept["key"].to_numpy().view(np.uint64), kind="stable")))
    values = lists(kept["features"])
    return values.values.to_numpy().reshape(-1, census.width)


def spread(
    spark: SparkSession, source: PairFiles, census: QueryIndex, part: np.ndarray, workers: int
) -> DataFrame:
    """Parcels of whole queries, those of rank r in the partition of its worker."""
    send = partial(_send, source=source, parts=_per_file(census, part, len(source.all)),
                   aside=_per_file(census, census.aside, len(source.all)))  # fmt: skip
    return (
        _numbered(spark, source)
        .mapInArrow(send, BLOCK)
        .repartitionById(workers, F.col("part") % workers)
    )


def _numbered(spark: SparkSession, source: PairFiles) -> DataFrame:
    return spark.range(0, len(source.all), 1, len(source.all))


def _per_file(census: QueryIndex, values: np.ndarray, files: int) -> list[np.ndarray]:
    ends = np.searchsorted(census.file, np.arange(1, files))
    return np.split(values, ends)


def _pieces(batches: Batches, source: PairFiles, columns: list[str] | None
) -> Iterator[tuple[int, int, pa.Table]]:  # fmt: skip
    """File, number of the first row, and some rows."""
    fs, _ = open_filesystem(source.url)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            start = 0
            with pq.ParquetFile(source.all[number], filesystem=fs) as file:
                for rows in file.iter_batches(READ_ROWS, columns=columns, use_threads=False):
                    yield number, start, pa.Table.from_batches([rows])
                    start += rows.num_rows


def _count(batches: Batches, *, source: PairFiles) -> Batches:
    for number, _, table in _pieces(batches, source, _COUNTED):
        names = whole(table["query_id"])
        rows = lists(table["doc_ids"]).lengths
        aside = np.full(len(names), number >= len(source.files))
        if not source.validation_files:
            aside = sample_queries(names, source.validation_fraction, "validation")
        positions = lists(table["positions"])
        columns = {
            "file": np.full(len(names), number, np.int32),
            "key": hashes(names).view(np.int64),
            "rows": rows.astype(np.int32),
            "pairs": lists(table["pair_i"]).lengths,
            "deepest": np.full(len(names), _deepest(positions.values), np.int32),
            "aside": aside,
        }
        yield pa.RecordBatch.from_pydict(columns)


def _deepest(positions: pa.Array) -> int:
    return int(positions.to_numpy(zero_copy_only=False).max(initial=1))


def _width(source: PairFiles, number: int) -> int:
    """Features of a row, as the first query of a file has them."""
    pieces = _pieces(iter([pa.record_batch({"id": [number]})]), source, ["doc_ids", "features"])
    _, _, table = next(pieces)
    values, rows = (lists(table[name]).lengths[0] for name in ("features", "doc_ids"))
    return int(values // max(rows, 1))


def _sample(
    batches: Batches, *, source: PairFiles, chosen: list[np.ndarray], total: int, width: int
) -> Batches:
    for number, start, piece in _pieces(batches, source, ["query_id", "doc_ids", "features"]):
        keep = chosen[number][start : start + piece.num_rows] >= 0
        table = piece.filter(pa.array(keep)).combine_chunks()
        if not table.num_rows:
            continue
        keys, sizes = hashes(table["query_id"]), lists(table["doc_ids"]).lengths
        inside = in_sample(keys, sizes, total)
        _refuse_other_width(table, sizes, width)
        features = whole(table["features"]).flatten()
        rows = pa.FixedSizeListArray.from_arrays(features, width).filter(pa.array(inside))
        key = np.repeat(keys, sizes)[inside].view(np.int64)
        yield pa.RecordBatch.from_arrays(
            [pa.array(key), rows.cast(pa.list_(pa.float32()))], ["key", "features"]
        )


def _refuse_other_width(table: pa.Table, rows: np.ndarray, width: int) -> None:
    values = lists(table["features"]).lengths
    if (values != rows * width).any():
        at = int(np.flatnonzero(values != rows * width)[0])
        raise UserError(
            f"query {table['query_id'][at]} has {values[at]} feature values for {rows[at]} "
            f"documents, others {width} a document; features must have one length for all"
        )


def _send(
    batches: Batches, *, source: PairFiles, parts: list[np.ndarray], aside: list[np.ndarray]
) -> Batches:
    for number, start, piece in _pieces(batches, source, None):
        table = piece.cast(pairs_schema)
        part = parts[number][start : start + table.num_rows].astype(np.int64)
        apart = aside[number][start : start + table.num_rows]
        for kind, chosen in ((TRAIN, ~apart), (VALIDATION, apart)):
            if chosen.any():
                yield from partition_blocks(kind, table.filter(pa.array(chosen)), part[chosen])
