"""Session ids that occur more than once, found without moving the pages.

Only a 64-bit hash of each id is shuffled. An id whose hash occurs once is unique for certain; the
few others are *suspects*, and their pages alone are compared by the ids themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from ulr.clicklog.contract import CheckedPages, check_pages
from ulr.clicklog.pages import PageSource
from ulr.engine.columns import hashes
from ulr.engine.session import spark_schema
from ulr.engine.shuffle import BLOCK, pack_bytes, unpack
from ulr.warehouse.schema import page_schema, plain_read_schema


class RepeatedIds:
    """Sessions whose pages must be compared: some hashes (sorted uint64), or all of them."""

    def __init__(self, hashes: np.ndarray | None) -> None:
        self.hashes = hashes

    @property
    def none(self) -> bool:
        """Whether no page needs comparing."""
        return self.hashes is not None and self.hashes.size == 0

    def among(self, session_ids: pa.Array) -> np.ndarray:
        """True where a session is suspect."""
        if self.hashes is None:
            return np.ones(len(session_ids), bool)
        if self.hashes.size == 0:
            return np.zeros(len(session_ids), bool)
        found = hashes(session_ids)
        at = np.searchsorted(self.hashes, found)
        return self.hashes[np.minimum(at, self.hashes.size - 1)] == found


def find_repeated_ids(source: PageSource, partitions: int, limit: int) -> RepeatedIds:
    """One pass over the ids. Past `limit` repeated ids the answer is 'all'."""
    if source.sessions_are_unique:
        return RepeatedIds(np.zeros(0, np.uint64))
    send = partial(_send_hashes, read=source.read_ids, partitions=partitions)
    parcels = source.frame.mapInArrow(send, BLOCK)
    parcels = parcels.repartitionById(partitions, F.col("part"))
    most = held_by_one(limit, partitions)
    keep = partial(_keep_repeated, limit=most)
    rows = parcels.mapInArrow(keep, "repeated binary").collect()
    found = [np.frombuffer(row.repeated, np.uint64) for row in rows]
    if any(f.size > most for f in found) or sum(f.size for f in found) > limit:
        return RepeatedIds(None)
    return RepeatedIds(np.sort(np.concatenate([np.zeros(0, np.uint64), *found])))


def held_by_one(limit: int, partitions: int) -> int:
    """Repeated ids that one reducer may send to the driver. They are spread evenly, so that one
    with twice its share means too many in all, and the driver never holds much over 2 `limit`."""
    return min(limit, 2 * limit // partitions + 1000)


def _send_hashes(batches: Iterator[pa.RecordBatch], *, read, partitions: int):  # noqa: ANN001, ANN202
    collected = [hashes(ids.drop_null()) for ids in read(batches)]
    found = np.sort(np.concatenate([np.zeros(0, np.uint64), *collected]))
    bounds = np.linspace(0, 2.0**64, partitions + 1)[1:-1].astype(np.uint64)
    for part, piece in enumerate(np.split(found, np.searchsorted(found, bounds))):
        if piece.size:
            yield pack_bytes(part, "hashes", piece.tobytes())


def _keep_repeated(batches: Iterator[pa.RecordBatch], *, limit: int) -> Iterator[pa.RecordBatch]:
    pieces = [np.frombuffer(content, np.uint64) for _, _, content in unpack(batches)]
    found = np.sort(np.concatenate([np.zeros(0, np.uint64), *pieces]))
    repeated = np.unique(found[1:][found[1:] == found[:-1]])[: limit + 1]
    yield pa.RecordBatch.from_pydict({"repeated": [repeated.tobytes()]})


def first_pages(source: PageSource, suspects: RepeatedIds) -> DataFrame:
    """The suspects' valid pages, one per session: the earliest, ties broken by content."""
    take = partial(_take_suspects, read=source.read, suspects=suspects)
    pages = source.frame.mapInArrow(take, spark_schema(plain_read_schema))
    content = F.xxhash64(*page_schema.names)
    order = Window.partitionBy("session_id").orderBy("shown_at", content)
    return pages.withColumn("turn", F.row_number().over(order)).where("turn = 1").drop("turn")


def _take_suspects(batches: Iterator[pa.RecordBatch], *, read, suspects: RepeatedIds):  # noqa: ANN001, ANN202
    for batch in read(batches):
        pages = check_pages(batch)
        rows = rows_with_repeated_ids(pages, suspects)
        if rows.size:
            yield batch.take(pa.array(rows)).cast(plain_read_schema)


def rows_with_repeated_ids(pages: CheckedPages, suspects: RepeatedIds) -> np.ndarray:
    """Indices of a batch's good pages that are suspect."""
    suspect = suspects.among(pages.batch["session_id"])
    return pages.good[suspect[pages.good]]
