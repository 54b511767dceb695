"""Spark tasks of A/B tests: counts by ranker of several dates, summed by query."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ulr.engine.columns import hashes
from ulr.engine.shuffle import BLOCK, open_table, partition_blocks, unpack
from ulr.engine.spark_versions import repartition_by_part
from ulr.engine.tasks import Batches, map_batches, map_items, partitions_for
from ulr.evaluation.ab.totals import CUTS, NO_QUERIES, Served, Totals, read_totals, total
from ulr.groups.rankers import FILE_PREFIX
from ulr.kernels.merge import group_keys
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.schema import RANKER
from ulr.warehouse.storage import StoredFile
from ulr.warehouse.tables import Warehouse

MOST_RANKERS = 1000  # that are listed


def ranker_files(warehouse: Warehouse, date: dt.date) -> list[StoredFile]:
    """Return the files of counts by ranker of a date; empty if its log has no rankers."""
    manifest = warehouse.require("groups", f"dt={date}")
    warehouse.check(manifest)
    names = [file.name for file in manifest.files if file.name.startswith(FILE_PREFIX)]
    folder = warehouse.storage_of("groups", f"dt={date}")
    return folder.stat([folder.path(manifest.where, manifest.folder, name) for name in names])


def pages_by_ranker(
    spark: SparkSession, url: str, files: Sequence[StoredFile], segment: str | None
) -> dict[str, int]:
    """Return the pages of each ranker, most first; of at most MOST_RANKERS rankers."""
    count = partial(_count_pages, url=url, segment=segment)
    rows = map_items(spark, files, count, "ranker string, pages long",
                     sizes=[file.size for file in files])  # fmt: skip
    summed = rows.groupBy(RANKER).agg(F.sum("pages").alias("pages"))
    most = summed.orderBy(F.desc("pages"), RANKER).limit(MOST_RANKERS).collect()
    return {row[RANKER]: row["pages"] for row in most}


def compare_rankers(
    spark: SparkSession,
    url: str,
    files: Sequence[StoredFile],
    rankers: tuple[str, str],
    segment: str | None,
) -> Totals:
    """Return the totals of two rankers over the queries of all files."""
    size = sum(file.size for file in files)
    parts = partitions_for(size)
    send = partial(_send, url=url, rankers=rankers, segment=segment, parts=parts)
    blocks = map_items(spark, files, send, BLOCK, sizes=[file.size for file in files])
    by_query = repartition_by_part(blocks, parts, F.col("part"))
    # Sums of numbers that are not integers depend on their order, so partitions are sorted.
    rows = map_batches(by_query, _total, "part int, totals string").collect()
    result = NO_QUERIES
    for row in sorted(rows, key=lambda row: row["part"]):
        result = result + read_totals(row["totals"])
    return result


def _count_pages(files: list[StoredFile], *, url: str, segment: str | None) -> Batches:
    for table in _read(files, url, segment, [RANKER, "pages"]):
        counts = table.group_by(RANKER).aggregate([("pages", "sum")])
        columns = [counts[RANKER], counts["pages_sum"]]
        yield from pa.table(columns, names=[RANKER, "pages"]).combine_chunks().to_batches()


def _read(
    files: list[StoredFile], url: str, segment: str | None, columns: Sequence[str]
) -> Iterator[pa.Table]:
    fs, _ = open_filesystem(url)
    for file in files:
        chosen = [*columns, *(["segment"] if segment is not None else [])]
        table = pq.read_table(file.path, columns=chosen, filesystem=fs, use_threads=False,
                              partitioning=None)  # fmt: skip
        if segment is not None:
            table = table.filter(pc.equal(table["segment"], segment))
        if table.num_rows:
            yield table


def _send(
    files: list[StoredFile], *, url: str, rankers: tuple[str, str], segment: str | None, parts: int
) -> Batches:
    """Send counts of the two rankers by hash of the query."""
    columns = ["query_id", RANKER, "first_click", "pages", "clicks"]
    for counts in _read(files, url, segment, columns):
        number = pc.index_in(counts[RANKER], pa.array(rankers))
        table = counts.append_column("side", number).filter(number.is_valid())
        query = hashes(table["query_id"])
        rows = table.select(["side", "first_click", "pages", "clicks"]).append_column(
            "query", pa.array(query)
        )
        part = (query % np.uint64(parts)).astype(np.int64)
        yield from partition_blocks("served", rows, part)


def _total(batches: Batches) -> Batches:
    """Sum the counts of a part by query, and the queries to totals."""
    tables, number = [], None
    for part, _, content in unpack(batches):
        number = part
        tables.append(open_table(content))
    if number is None:
        return
    totals = total(served_of(pa.concat_tables(tables)))
    row = {"part": pa.array([number], pa.int32()), "totals": [totals.to_json()]}
    yield pa.RecordBatch.from_pydict(row)


def served_of(rows: pa.Table) -> Served:
    """Return the pages and events of each query, sorted by the hash of the query.

    rows: query (uint64), side (0 or 1), first_click, pages and clicks.
    """
    query = rows["query"].to_numpy()
    order = np.argsort(query, kind="stable")
    key, first = group_keys(query[order], np.zeros(query.size, np.uint64))
    side = rows["side"].to_numpy()[order]
    position = rows["first_click"].to_numpy()[order]
    pages, clicks = rows["pages"].to_numpy()[order], rows["clicks"].to_numpy()[order]

    def summed(values: np.ndarray) -> np.ndarray:
        result = np.zeros((first.size, 2), np.int64)
        np.add.at(result, (key, side), values)
        return result

    clicked = position > 0
    events = [summed(pages * (clicked & (position <= k))) for k in CUTS]
    events += [summed(pages * clicked), summed(clicks)]
    return Served(summed(pages), np.stack(events), query[order][first])
