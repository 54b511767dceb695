"""Find session ids that occur more than once, without shuffling the pages.

Only a 64-bit hash of each good page's id is shuffled, together with the groups. An id whose hash
occurs once is unique. The few others are *repeated*; only their pages are read again, and compared
by the ids themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from ulr.clicklog.contract import CheckedPages
from ulr.clicklog.pages import PageReader, PageSource
from ulr.engine.columns import hashes
from ulr.engine.session import spark_schema
from ulr.engine.shuffle import pack_bytes
from ulr.engine.tasks import map_batches
from ulr.warehouse.schema import pages_of, reading, recorded_of

Batches = Iterator[pa.RecordBatch]


class RepeatedIds:
    """Session ids that may occur more than once; hashes: sorted uint64, None for all ids."""

    def __init__(self, hashes: np.ndarray | None) -> None:
        self.hashes = hashes

    @property
    def none(self) -> bool:
        """Whether every id is unique."""
        return self.hashes is not None and self.hashes.size == 0

    def rows(self, pages: CheckedPages) -> np.ndarray:
        """Return the indices (int64) of good pages with a repeated id."""
        if self.hashes is None:
            return pages.good
        if self.none:
            return pages.good[:0]
        keys = hashes(pages.batch["session_id"])[pages.good]
        at = np.minimum(np.searchsorted(self.hashes, keys), self.hashes.size - 1)
        repeated: np.ndarray = pages.good[self.hashes[at] == keys]
        return repeated

    def other_rows(self, pages: CheckedPages) -> np.ndarray:
        """Return the indices (int64) of good pages without a repeated id."""
        return np.setdiff1d(pages.good, self.rows(pages), assume_unique=True)


def hash_blocks(keys: Sequence[np.ndarray], partitions: int) -> Batches:
    """Yield the hashes (uint64) as blocks that send each reducer its range."""
    ordered = _sorted(keys)
    bounds = np.linspace(0, 2.0**64, partitions + 1)[1:-1].astype(np.uint64)
    for part, piece in enumerate(np.split(ordered, np.searchsorted(ordered, bounds))):
        if piece.size:
            yield pack_bytes(part, "hashes", piece.tobytes())


def keep_repeated(contents: Iterable[pa.Buffer], limit: int) -> np.ndarray:
    """Return the hashes (uint64) that occur more than once in a range, at most limit + 1."""
    keys = _sorted([np.frombuffer(content, np.uint64) for content in contents])
    return np.unique(keys[1:][keys[1:] == keys[:-1]])[: limit + 1]


def collect_repeated(pieces: Sequence[np.ndarray], partitions: int, limit: int) -> RepeatedIds:
    """Return the repeated ids of all ranges; past `limit`, all ids count as repeated."""
    most = reducer_limit(limit, partitions)
    if any(p.size > most for p in pieces) or sum(p.size for p in pieces) > limit:
        return RepeatedIds(None)
    return RepeatedIds(_sorted(pieces))


def reducer_limit(limit: int, partitions: int) -> int:
    """Return how many repeated ids one reducer may send to the driver.

    Ids are spread evenly: a reducer with twice its share means that there are too many in all.
    The driver never holds much more than 2 `limit`.
    """
    return min(limit, 2 * limit // partitions + 1000)


def later_pages(source: PageSource, repeated: RepeatedIds) -> DataFrame:
    """Return the good pages to drop: all of a repeated id but the earliest, ties by content."""
    return _in_turn(source, repeated).where("turn > 1").drop("turn")


def earliest_pages(source: PageSource, repeated: RepeatedIds) -> DataFrame:
    """Return the good page to keep of each repeated id."""
    return _in_turn(source, repeated).where("turn = 1").drop("turn")


def _in_turn(source: PageSource, repeated: RepeatedIds) -> DataFrame:
    """Return the good pages of repeated ids, numbered by `turn` from 1 within each id.

    Of pages at one time, the order is that of the columns that groups are made of, then that of
    the features and the ranker: these do not change the groups.
    """
    take = partial(_take_repeated, reader=source.reader, repeated=repeated)
    pages = map_batches(source.frame, take, spark_schema(reading(source.reader.pages)))
    names = source.reader.pages.names
    of_groups, content = F.xxhash64(*recorded_of(names).names), F.xxhash64(*names)
    order = Window.partitionBy("session_id").orderBy("shown_at", of_groups, content)
    return pages.withColumn("turn", F.row_number().over(order))


def _take_repeated(batches: Batches, *, reader: PageReader, repeated: RepeatedIds) -> Batches:
    for batch in reader.read(batches):
        rows = repeated.rows(reader.check(batch))
        if rows.size:
            taken = batch.take(pa.array(rows))
            yield taken.cast(reading(pages_of(batch.schema.names)))


def _sorted(pieces: Sequence[np.ndarray]) -> np.ndarray:
    return np.sort(np.concatenate([np.zeros(0, np.uint64), *pieces]))
