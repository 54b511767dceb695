"""Find session ids that occur more than once, without shuffling the pages.

Only a 64-bit hash of each good page's id is sent, together with the groups. An id whose hash occurs
once is unique. The few others are *repeated*; only their pages are read again, sent by session, and
compared by the ids themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from ulr.clicklog.contract import CheckedPages
from ulr.clicklog.pages import PageReader, PageSource
from ulr.clicklog.vectors import hash_vectors
from ulr.engine.blocks import bytes_block, hash_parts, open_table, partition_blocks
from ulr.engine.columns import hashes, lists, valid, whole
from ulr.engine.interface import Blocks, Exchange
from ulr.kernels.hashing import hash_lists, hash_words
from ulr.warehouse.schema import pages_of, reading, recorded_of

_HELD_BYTES = 64 << 20  # of repeated pages in a task, before they are sent


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


def hash_blocks(keys: Sequence[np.ndarray], partitions: int) -> Blocks:
    """Yield the hashes (uint64) as blocks that send each reducer its range."""
    ordered = _sorted(keys)
    bounds = np.linspace(0, 2.0**64, partitions + 1)[1:-1].astype(np.uint64)
    for part, piece in enumerate(np.split(ordered, np.searchsorted(ordered, bounds))):
        if piece.size:
            yield bytes_block(part, "hashes", piece.tobytes())


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


def repeated_pages(source: PageSource, repeated: RepeatedIds, parts: int) -> Exchange:
    """Return the good pages of repeated ids, those of a session in one part."""
    send = partial(_send_repeated, reader=source.reader, repeated=repeated, parts=parts)
    return Exchange([(source.source, send)], parts)


def in_turn(blocks: Blocks, *, first: bool) -> Iterator[pa.RecordBatch]:
    """Yield pages of repeated ids: the earliest of each id (first), or all others.

    Of pages at one time, the order is that of the columns that groups are made of, then that of
    the features and the ranker: these do not change the groups.
    """
    table = pa.concat_tables(open_table(content) for _, _, content in blocks)
    table = table.combine_chunks()
    recorded = recorded_of(table.column_names).names
    ids = whole(table["session_id"]).dictionary_encode()
    order = np.lexsort(
        (
            _row_hashes(table, [n for n in table.column_names if n not in recorded]),
            _row_hashes(table, recorded),
            whole(table["shown_at"]).cast(pa.int64()).to_numpy(),
            ids.indices.to_numpy(),
        )
    )
    session = ids.indices.to_numpy()[order]
    is_first = np.append(True, session[1:] != session[:-1])
    rows = np.sort(order[is_first == first])
    yield from table.take(pa.array(rows)).combine_chunks().to_batches()


def _send_repeated(
    argument: object, *, reader: PageReader, repeated: RepeatedIds, parts: int
) -> Blocks:
    held: list[pa.Table] = []
    for batch in reader.read(argument):
        rows = repeated.rows(reader.check(batch))
        if rows.size:
            taken = pa.Table.from_batches([batch.take(pa.array(rows))])
            held.append(taken.cast(reading(pages_of(batch.schema.names))))
        if sum(table.nbytes for table in held) >= _HELD_BYTES:
            yield from _blocks_of(held, parts)
            held = []
    if held:
        yield from _blocks_of(held, parts)


def _blocks_of(tables: list[pa.Table], parts: int) -> Blocks:
    table = pa.concat_tables(tables)
    yield from partition_blocks("pages", table, hash_parts(table["session_id"], parts))


def _row_hashes(table: pa.Table, names: Sequence[str]) -> np.ndarray:
    """Return a hash (uint64) of some columns of each row."""
    h = np.zeros(table.num_rows, np.uint64)
    for name in names:
        column = whole(table[name])
        own = np.where(valid(column), _value_hashes(column), np.uint64(0))
        h = hash_words(own, h)
    return h


def _value_hashes(column: pa.Array) -> np.ndarray:
    """Return a hash (uint64) of each value; equal values have equal hashes."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _value_hashes(column.dictionary_decode())
    if pa.types.is_string(kind):
        return hashes(column)
    if not pa.types.is_list(kind):
        numbers = column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        words: np.ndarray = numbers.astype(np.int64).view(np.uint64)
        return words
    rows = lists(column)
    if pa.types.is_list(rows.values.type):  # vectors of features
        values = hash_vectors(pa.chunked_array([rows.values]))
    else:
        values = _value_hashes(rows.values)
    hashed: np.ndarray = hash_lists(rows.starts, rows.lengths, values)
    return hashed


def _sorted(pieces: Sequence[np.ndarray]) -> np.ndarray:
    return np.sort(np.concatenate([np.zeros(0, np.uint64), *pieces]))
