"""Assemble rows of shown documents into results pages.

A *fragment* holds the rows of one session that agree in query, segment, bucket and arm: these
columns once, and lists of positions, documents and clicks, sorted by position, without copies of a
row. A row is a fragment with one document. Merging fragments in any order and any grouping gives
the same result, so map tasks and reducers use one `merge`. Fragments travel by hash of the session.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.clicklog.sessions import assemble_rows
from ulr.clicklog.vectors import hash_vectors
from ulr.engine.blocks import hash_parts, open_table, partition_blocks
from ulr.engine.columns import hashes, list_array, lists, valid, whole
from ulr.engine.interface import Batches, Blocks
from ulr.kernels.hashing import hash_words
from ulr.kernels.layout import Ragged, offsets_of
from ulr.kernels.merge import group_keys
from ulr.warehouse.schema import FEATURES, FEEDBACK, RANKER, pages_of, reading

SEND_BYTES = 64 << 20  # fragments that a map task holds before it sends them
PARTS_PER_TASK = 8  # a reducer assembles its sessions in this many parts, to bound its memory

_SECOND_SEED = np.array([0x5E55], np.uint64)  # two hashes of a session id: 128 bits
_ELEMENTS = ("position", "doc_id", "clicked", FEEDBACK, FEATURES)
_NO_POSITION = -(2**31)


def send_fragments(
    argument: Any,
    *,
    read: Callable[[Any], Batches],
    parts: int,
    first_position: int = 1,
) -> Blocks:
    """Read rows of impressions and yield their fragments as blocks by hash of the session.

    first_position: the number of the first position in the log.
    """
    pending: list[pa.Table] = []
    for batch in read(argument):
        if batch.num_rows:
            pending.append(merge(_from_rows(batch, first_position)))
        if sum(table.nbytes for table in pending) >= SEND_BYTES:
            yield from _blocks(pending, parts)
            pending = []
    if pending:
        yield from _blocks(pending, parts)


def read_pages(blocks: Blocks) -> Batches:
    """Merge a reducer's fragments and yield pages with `read_schema`."""
    contents = defaultdict(list)
    for part, _, content in blocks:
        contents[part].append(content)
    while contents:
        _, own = contents.popitem()
        yield from _pages(merge(pa.concat_tables(map(open_table, own))))


def assemble(batches: Batches, first_position: int = 1) -> Batches:
    """Yield the pages of all rows of impressions, in memory. first_position: as above."""
    fragments = [merge(_from_rows(batch, first_position)) for batch in batches if batch.num_rows]
    if fragments:
        yield from _pages(merge(pa.concat_tables(fragments).unify_dictionaries()))


def merge(table: pa.Table) -> pa.Table:
    """Join the fragments of equal session, query, segment, bucket and arm.

    Rows with a problem or without a session are never joined.
    """
    table = table.combine_chunks()
    group, first = group_keys(hashes(table["session_id"]), _context(table))
    rows = Ragged(offsets_of(lists(table["position"]).lengths))
    values = {name: whole(table[name]).flatten() for name in _elements(table)}
    position = values["position"].cast(pa.int64()).fill_null(_NO_POSITION).to_numpy()
    key = (group[rows.owner()] << 32) + (position - _NO_POSITION)
    if (key[1:] < key[:-1]).any():
        order = np.argsort(key, kind="stable")
        values = {name: v.take(pa.array(order)) for name, v in values.items()}
        key = key[order]
    owner = key >> 32
    copies = _copies(key, values)
    if copies.any():
        values = {name: v.filter(pa.array(~copies)) for name, v in values.items()}
    lengths = np.bincount(owner[~copies], minlength=first.size)
    joined = {name: list_array(lengths, v) for name, v in values.items()}
    dropped = np.bincount(owner[copies], minlength=first.size)
    return _joined(table, group, first, joined, dropped)


def _from_rows(batch: pa.RecordBatch, first_position: int = 1) -> pa.Table:
    """Return every row as a fragment, with positions from 1."""
    ones = np.ones(batch.num_rows, np.int64)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    if first_position != 1:
        shift = pa.scalar(1 - first_position, pa.int32())
        columns["position"] = pc.add(columns["position"], shift)
    if FEEDBACK in columns:  # which is enough, so `clicked` may be null
        columns["clicked"] = columns["clicked"].fill_null(False)
    columns |= {name: list_array(ones, columns[name]) for name in _elements(batch)}
    return pa.table(columns)


def _elements(table: pa.Table | pa.RecordBatch) -> list[str]:
    """Return the columns of documents."""
    return [name for name in _ELEMENTS if name in table.schema.names]


def _context(table: pa.Table) -> np.ndarray:
    """Hash (session, query, segment, bucket, arm) of each fragment that may be joined: uint64."""
    rows = table.num_rows
    null = np.zeros(rows, np.uint64)
    h = hashes(table["session_id"], _SECOND_SEED)
    for name in ("query_id", "segment", "bucket", RANKER):
        column = table[name] if name in table.column_names else None
        if column is None or column.null_count == rows:
            continue
        h = np.where(valid(column), hashes(column, h), hash_words(null, h))
    if table["swapped"].null_count < rows:
        arm = whole(table["swapped"]).cast(pa.int8()).fill_null(-1).to_numpy() + 1
        h = hash_words(arm.astype(np.uint64), h)
    alone = valid(table["problem"]) | ~_has_session(table)
    if alone.any():
        h[alone] = hash_words(np.flatnonzero(alone).astype(np.uint64), h[alone])
    return h


def _has_session(table: pa.Table) -> np.ndarray:
    column = whole(table["session_id"])
    offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset :][: len(column) + 1]
    return valid(column) & (np.diff(offsets) > 0)


def _copies(key: np.ndarray, values: Mapping[str, pa.Array]) -> np.ndarray:
    """Return which elements equal the one before: same fragment, position, document and events."""
    same = np.append(False, key[1:] == key[:-1])
    if same.any():
        texts = [values[name] for name in ("doc_id", FEEDBACK) if name in values]
        parts = [part for text in texts for part in (hashes(text), valid(text))]
        if FEATURES in values:
            vectors = values[FEATURES]
            parts += [hash_vectors(pa.chunked_array([vectors])), valid(vectors)]
        rest = np.stack([*parts, _click_codes(values["clicked"])])
        same[1:] &= (rest[:, 1:] == rest[:, :-1]).all(axis=0)
    return same


def _click_codes(clicked: pa.Array) -> np.ndarray:
    return clicked.cast(pa.uint8()).fill_null(2).to_numpy(zero_copy_only=False)


def _joined(
    table: pa.Table,
    group: np.ndarray,
    first: np.ndarray,
    joined: dict[str, pa.Array],
    dropped: np.ndarray,
) -> pa.Table:
    """Return one row per group: the earliest time, the first source in order, and the lists."""
    changed: dict[str, pa.Array] = dict(joined)
    repeats = table["repeats"].to_numpy()
    changed["repeats"] = pa.array((_add(repeats, group, first) + dropped).astype(np.int32))
    if first.size < group.size:
        starts = np.flatnonzero(np.diff(np.sort(group), prepend=-1))
        by_group = np.argsort(group, kind="stable")
        times = whole(table["shown_at"])
        latest = np.iinfo(np.int64).max
        when = times.cast(pa.int64()).fill_null(latest).to_numpy()[by_group]
        earliest = np.minimum.reduceat(when, starts)
        changed["shown_at"] = pa.array(earliest, times.type, mask=earliest == latest)
        source = whole(table["source"])
        rank = np.argsort(np.argsort(source.dictionary.to_numpy(zero_copy_only=False)))
        ranks = rank[source.indices.to_numpy()][by_group]
        lowest = np.argsort(rank)[np.minimum.reduceat(ranks, starts)].astype(np.int32)
        changed["source"] = pa.DictionaryArray.from_arrays(lowest, source.dictionary)
    kept = table.select([n for n in table.column_names if n not in changed])
    if first.size < group.size:
        kept = kept.take(pa.array(first))
    columns = {n: kept[n] if n in kept.column_names else changed[n] for n in table.column_names}
    return pa.table(columns)


def _add(values: np.ndarray, group: np.ndarray, first: np.ndarray) -> np.ndarray:
    return np.bincount(group, values, first.size).astype(np.int64)


def _blocks(tables: list[pa.Table], parts: int) -> Blocks:
    table = pa.concat_tables(tables).combine_chunks()
    yield from partition_blocks("fragments", table, hash_parts(table["session_id"], parts))


def _pages(fragments: pa.Table) -> Batches:
    """Yield the pages of whole sessions; sessions with a problem are assembled one by one."""
    plain = _is_plain(fragments)
    pages = fragments if plain.all() else fragments.filter(pa.array(plain))
    columns = {n: pages[n] for n in pages.column_names if n not in _ELEMENTS}
    columns |= {"doc_ids": pages["doc_id"], "clicks": pages["clicked"]}
    columns |= {n: pages[n] for n in (FEEDBACK, FEATURES) if n in pages.column_names}
    schema = reading(pages_of(columns), inside=True)
    table = pa.table({n: columns[n] for n in schema.names}).cast(schema)
    yield from table.combine_chunks().to_batches()
    if not plain.all():
        rows = fragments.filter(pa.array(~plain)).to_pylist()
        yield pa.RecordBatch.from_pylist(assemble_rows(rows), schema=schema)


def _is_plain(fragments: pa.Table) -> np.ndarray:
    """Return whether each fragment is its whole session, with the positions 1, 2, 3 and so on."""
    session, first = group_keys(
        hashes(fragments["session_id"]), hashes(fragments["session_id"], _SECOND_SEED)
    )
    alone = np.bincount(session, minlength=first.size)[session] == 1
    positions = whole(fragments["position"])
    rows = Ragged(offsets_of(lists(positions).lengths))
    wrong = positions.flatten().fill_null(0).to_numpy() != rows.within() + 1
    wrong_before = offsets_of(wrong)[rows.offsets]
    return (
        alone
        & (np.diff(wrong_before) == 0)
        & ~valid(fragments["problem"])
        & _has_session(fragments)
    )
