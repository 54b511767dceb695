"""Rows of shown documents to pages and documents, and to histograms.

A row is a document that a session showed. It has a position, a click and features. The ids of
queries and documents may be missing: documents are then equal if their features are, and queries
if they showed the same set of documents. The notebook API calls this with all rows, the Estimator
in each task with the rows of whole queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.clicklog.contract import REASONS, check_pages
from ulr.engine.columns import hashes, list_array
from ulr.errors import InvalidData
from ulr.groups.histograms import canonical, fold_pages, merge
from ulr.kernels.hashing import hash_words, splitmix64
from ulr.kernels.layout import Ragged, offsets_of
from ulr.kernels.merge import group_keys
from ulr.warehouse.schema import page_schema, read_schema

_PAGES_DOCUMENTS = 1 << 20  # of the sessions that are folded at once
_SHOWN_AT = 1_577_836_800_000_000  # 2020-01-01; histograms have no time


class ShownRows(NamedTuple):
    """Rows of shown documents, by session; row r is that of the features.

    session   int64 offsets, sessions + 1, into the arrays below; rows of a session are adjacent
    row       int64, the row of the features
    position  int64, from 1, where the row was shown
    label     float64, above 0 if it was clicked
    features  uint64, a hash of its features
    query     the id of the query, or None; document: of the document, or None
    segment   the segment, null for none, or None
    """

    session: np.ndarray
    row: np.ndarray
    position: np.ndarray
    label: np.ndarray
    features: np.ndarray
    query: pa.Array | None = None
    document: pa.Array | None = None
    segment: pa.Array | None = None


@dataclass(frozen=True)
class ShownDocuments:
    """The documents that sessions showed.

    names: query_id, doc_id and label of each distinct document. row: int64, the first row of each
    of them. changed: rows whose features differ from those of this first row.
    """

    names: pa.Table
    row: np.ndarray
    changed: int


def by_session(sessions: np.ndarray, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets of the sessions, and the order of rows by session and position.

    sessions: int64 per row, the number of its session.
    """
    ascending = np.diff(sessions)
    if (ascending > 0).any() or sessions.size < 2 or not (ascending < 0).any():
        in_order = (ascending >= 0) & ((ascending > 0) | (np.diff(position) > 0))
        if in_order.all():
            return offsets_of(np.bincount(sessions)), np.arange(sessions.size)
    order = np.lexsort((position, sessions))
    return offsets_of(np.bincount(sessions)), order


def split_rows(
    shown: ShownRows, max_position: int
) -> tuple[Iterator[pa.RecordBatch], ShownDocuments]:
    """Return the pages of the sessions, some at a time, and the documents that they showed.

    Pages have `read_schema`. max_position: longer lists are cut. Positions without a row show a
    document without features.
    """
    _check_positions(shown)
    kept = shown.position <= max_position
    if not kept.all():
        shown = _take(shown, kept)
    ids = _Ids.of(shown)
    return _pages(shown, ids), _documents_of(shown, ids)


def shown_groups(shown: ShownRows, max_position: int) -> tuple[pa.Table, ShownDocuments]:
    """Return the groups of the sessions, rows of `groups_schema`, and their documents."""
    pages, documents = split_rows(shown, max_position)
    folded = []
    for batch in pages:
        checked = check_pages(batch)
        if checked.bad.size:
            first = int(checked.bad[0])
            reason, page = checked.reason[first].as_py(), batch["doc_ids"][first].as_py()
            raise InvalidData(invalid_sessions(checked.bad.size, reason, page))
        folded.append(fold_pages(checked, checked.good, max_position))
    return canonical(merge(folded)), documents


def invalid_sessions(number: int, reason: str, documents: Sequence[str]) -> str:
    """Return the message that sessions are no valid pages. documents: of one of them."""
    return (
        f"{number:,} sessions are not valid pages: {REASONS[reason]}; one of them shows "
        f"{', '.join(map(str, documents[:10]))}"
    )


def _documents_of(shown: ShownRows, ids: _Ids) -> ShownDocuments:
    query = np.repeat(ids.query_hash, np.diff(shown.session))
    number, first = group_keys(query, ids.document_hash)
    session = Ragged(shown.session).owner()[first]
    names = {
        "query_id": ids.query.take(pa.array(session)),
        "doc_id": ids.document(first),
        "label": pa.array(np.rint(shown.label[first]).astype(np.int32)),
    }
    changed = shown.features != shown.features[first[number]]
    return ShownDocuments(pa.table(names), shown.row[first], int(np.count_nonzero(changed)))


def _take(shown: ShownRows, kept: np.ndarray) -> ShownRows:
    mask = pa.array(kept)

    def chosen(column: pa.Array | None) -> pa.Array | None:
        return None if column is None else column.filter(mask)

    session = Ragged(shown.session).select(kept).offsets
    arrays = (shown.row, shown.position, shown.label, shown.features)
    ids = map(chosen, (shown.query, shown.document, shown.segment))
    return ShownRows(session, *(array[kept] for array in arrays), *ids)


def _check_positions(shown: ShownRows) -> None:
    if (lowest := shown.position.min(initial=1)) < 1:
        raise InvalidData(f"position contains {lowest}; positions begin at 1, the top")
    inside = np.ones(shown.position.size, bool)
    inside[shown.session[:-1][np.diff(shown.session) > 0]] = False
    same = np.flatnonzero(inside & (np.diff(shown.position, prepend=0) == 0))
    if same.size:
        raise InvalidData(
            f"{same.size:,} rows have the position of another row of their session, such as row "
            f"{shown.row[same[0]]} at position {shown.position[same[0]]}; a session shows one "
            "document at each position"
        )


@dataclass(frozen=True)
class _Ids:
    """Ids of queries by session, and of documents by row, with their hashes (uint64).

    texts, codes: the documents' ids, and which of them each row has; codes is None if `texts` has
    one for each row.
    """

    query: pa.Array
    query_hash: np.ndarray
    document_hash: np.ndarray
    texts: pa.Array
    codes: np.ndarray | None

    @classmethod
    def of(cls, shown: ShownRows) -> _Ids:
        texts, codes, document_hash = _documents(shown)
        if shown.query is None:
            query = _texts(_sets(shown, document_hash))
        else:
            query = shown.query.take(pa.array(shown.session[:-1]))
            _check_queries(shown.session, shown.query, query)
        return cls(query, hashes(query), document_hash, texts, codes)

    def document(self, rows: np.ndarray) -> pa.Array:
        """Return the ids of the documents of some rows."""
        return self.texts.take(pa.array(rows if self.codes is None else self.codes[rows]))


def _documents(shown: ShownRows) -> tuple[pa.Array, np.ndarray | None, np.ndarray]:
    """Return the distinct ids of documents, the id of each row, and its hash.

    Without ids of queries, a document is the same if its features are the same, too.
    """
    if shown.document is not None and shown.query is not None:
        return shown.document, None, hashes(shown.document)
    key = shown.features
    if shown.document is not None:
        key = hash_words(key, hashes(shown.document))
    key = _apart(shown, key)
    codes, first = group_keys(key, np.zeros(key.size, np.uint64))
    texts = _texts(key[first])
    return texts, codes, hashes(texts)[codes]


def _apart(shown: ShownRows, key: np.ndarray) -> np.ndarray:
    """Return keys that differ within each session: equal rows of one are several documents."""
    session = Ragged(shown.session).owner().view(np.uint64)
    number, first = group_keys(session, key)
    if first.size == key.size:
        return key
    sizes = np.bincount(number, minlength=first.size)
    order = np.argsort(number, kind="stable")
    turn = np.empty(key.size, np.int64)
    turn[order] = Ragged.from_lengths(sizes).within()
    return np.where(turn == 0, key, hash_words(turn.astype(np.uint64), key))


def _sets(shown: ShownRows, document_hash: np.ndarray) -> np.ndarray:
    """Return a hash (uint64) of the set of documents of each session."""
    sums = np.concatenate([[np.uint64(0)], np.cumsum(splitmix64(document_hash), dtype=np.uint64)])
    return splitmix64(sums[shown.session[1:]] - sums[shown.session[:-1]])


def _texts(keys: np.ndarray) -> pa.Array:
    return pa.array(keys).cast(pa.string())


def _check_queries(session: np.ndarray, of_row: pa.Array, of_session: pa.Array) -> None:
    owner = Ragged(session).owner()
    differ = pc.not_equal(of_row, of_session.take(pa.array(owner))).to_numpy(zero_copy_only=False)
    if differ.any():
        at = int(np.argmax(differ))
        raise InvalidData(
            f"rows of one session have different queries, {of_session[int(owner[at])]} and "
            f"{of_row[at]}; a session answers one query"
        )


def _pages(shown: ShownRows, ids: _Ids) -> Iterator[pa.RecordBatch]:
    """Yield the pages of some sessions at a time."""
    sessions = np.flatnonzero(np.diff(shown.session) > 0)
    ends = shown.session[sessions + 1]
    start = 0
    while start < sessions.size:
        limit = shown.session[sessions[start]] + _PAGES_DOCUMENTS
        end = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        yield _page_batch(shown, ids, sessions[start:end])
        start = end


def _page_batch(shown: ShownRows, ids: _Ids, sessions: np.ndarray) -> pa.RecordBatch:
    """Return pages with `read_schema`, one for each of these sessions (int64), which have rows."""
    rows = np.arange(shown.session[sessions[0]], shown.session[sessions[-1] + 1])
    lengths = shown.position[shown.session[sessions + 1] - 1]
    documents, clicked = ids.document(rows), shown.label[rows] > 0
    if rows.size < lengths.sum():
        sizes = shown.session[sessions + 1] - shown.session[sessions]
        place = np.repeat(offsets_of(lengths)[:-1], sizes) + shown.position[rows] - 1
        documents, clicked = _with_gaps(Ragged.from_lengths(lengths), place, documents, clicked)
    count = sessions.size
    first = pa.array(shown.session[sessions])
    columns = {
        "session_id": pa.array(sessions).cast(pa.string()),
        "query_id": ids.query.take(pa.array(sessions)),
        "shown_at": pa.repeat(pa.scalar(_SHOWN_AT, page_schema.field("shown_at").type), count),
        "doc_ids": list_array(lengths, documents),
        "clicks": list_array(lengths, pa.array(clicked)),
        "repeats": pa.repeat(pa.scalar(0, pa.int32()), count),
    }
    if shown.segment is not None:
        columns["segment"] = shown.segment.take(first)
    arrays = [columns.get(f.name, pa.nulls(count, f.type)) for f in read_schema]
    return pa.RecordBatch.from_arrays(arrays, schema=read_schema)


def _with_gaps(
    pages: Ragged, place: np.ndarray, documents: pa.Array, clicked: np.ndarray
) -> tuple[pa.Array, np.ndarray]:
    """Return the documents and clicks of whole pages, with other documents where none is known.

    place: int64, where each document belongs.
    """
    size = int(pages.offsets[-1])
    known, clicks = np.full(size, -1), np.zeros(size, bool)
    known[place], clicks[place] = np.arange(place.size), clicked
    unknown = pa.array([f"\0{k}" for k in range(int(pages.lengths.max()))])
    filled = np.where(known < 0, len(documents) + pages.within(), known)
    texts = pa.concat_arrays([documents, unknown])
    return texts.take(pa.array(filled)), clicks
