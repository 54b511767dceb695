"""The contract of results pages: a list of rules, each with a reason to reject a page.

A rule checks whole columns of an Arrow batch. The reason of a page is that of the first rule it
breaks. A problem that was recorded while reading text or impressions (`problem`) takes precedence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.clicklog.events import CLICKS_ONLY, UNKNOWN, Levels, graded_lists
from ulr.clicklog.times import out_of_range
from ulr.engine.columns import Lists, hashes, lists, valid, whole
from ulr.experiments.buckets import is_shuffle, parse_bucket
from ulr.kernels.layout import offsets_of
from ulr.kernels.patterns import has_duplicates
from ulr.warehouse.schema import FEATURES, FEEDBACK

# Reasons in the order of their rules, with the text shown to users.
REASONS = {
    "too_large": "the row, one of its texts or its list of documents is too large",
    "bad_encoding": "a text is not valid UTF-8",
    "bad_type": "a value cannot be read as its column's type",
    "conflicting_rows": "rows of one session differ in query, segment, experiment or ranker",
    "null_position": "an impression has no position",
    "duplicate_position": "two different impressions have the same position",
    "position_gap": "positions do not run from the first one (log.first_position) without a gap",
    "null_session_id": "session_id is null or empty",
    "null_query_id": "query_id is null or empty",
    "null_shown_at": "shown_at is null",
    "date_out_of_range": "shown_at is not in the years 2000 to 2100",
    "null_doc_ids": "doc_ids is null",
    "null_clicks": "clicks is null, and so is feedback if it is read",
    "length_mismatch": "doc_ids and clicks or feedback have different lengths",
    "empty_page": "the page shows no document",
    "null_doc_id": "a document id is null or empty",
    "null_click": "a click is null",
    "unknown_event": "feedback has an event that log.feedback does not name",
    "duplicate_document": "a document is on the page twice",
    "bad_bucket": "bucket does not parse",
    "bucket_past_end": "bucket names a position past the end of the page",
    "bucket_without_arm": "bucket is set but swapped is null",
    "swap_without_bucket": "swapped is true but bucket is null",
    "features_mismatch": "features has another number of vectors than there are documents",
    "wrong_vector": "a vector of features has another length than log.features says",
}

# Larger rows and longer pages are not read (too_large).
MAX_ROW_BYTES = 16 << 20
MAX_DOCUMENTS = 100_000
_MAX_DEPTH = 2**31  # longer than any Arrow list

Rule = tuple[str, np.ndarray | None]


@dataclass(frozen=True)
class CheckedPages:
    """A batch of pages and the result of checking it.

    reason: string, null for a good page. document_hashes: uint64, one per element of `documents`.
    feedback: levels (uint8) as elements, without lists where a page has none; None: only clicks.
    levels: the events of the log. features: vectors as elements; None: they are not read.
    """

    batch: pa.RecordBatch
    reason: pa.Array
    documents: Lists
    document_hashes: np.ndarray
    clicks: Lists
    feedback: Lists | None = None
    levels: Levels = CLICKS_ONLY
    features: Lists | None = None

    @property
    def good(self) -> np.ndarray:
        """Indices (int64) of the pages that satisfy the contract."""
        return np.flatnonzero(~valid(self.reason))

    @property
    def bad(self) -> np.ndarray:
        """Indices (int64) of the pages that break the contract."""
        return np.flatnonzero(valid(self.reason))


def check_pages(
    batch: pa.RecordBatch, levels: Levels = CLICKS_ONLY, width: int = 0
) -> CheckedPages:
    """Check every page of a batch that has `read_schema`, with feedback if levels have names.

    width: the number of features in a vector; 0: there are none.
    """
    documents, clicks = lists(batch["doc_ids"]), lists(batch["clicks"])
    feedback = graded_lists(batch[FEEDBACK], levels) if FEEDBACK in batch.schema.names else None
    features = lists(batch[FEATURES]) if width else None
    document_hashes = hashes(documents.values)
    names = list(REASONS)
    code = np.full(batch.num_rows, -1, np.int8)
    rules = (
        _rules(batch, documents, document_hashes, clicks, feedback),
        _feature_rules(batch, documents.lengths, features, width),
    )
    for name, broken in chain(*rules):
        if broken is not None:
            code[(code < 0) & broken] = names.index(name)
    reason = pa.array(names).take(pa.array(code, mask=code < 0))
    if batch["problem"].null_count < batch.num_rows:
        reason = pc.coalesce(whole(batch["problem"]), reason)
    return CheckedPages(
        batch, reason, documents, document_hashes, clicks, feedback, levels, features
    )


def _rules(
    batch: pa.RecordBatch,
    documents: Lists,
    document_hashes: np.ndarray,
    clicks: Lists,
    feedback: Lists | None,
) -> Iterator[Rule]:
    """Yield each reason with the rows (bool) that break its rule; None if no row does."""
    yield "too_large", documents.lengths > MAX_DOCUMENTS
    yield "null_session_id", _blank(batch["session_id"])
    yield "null_query_id", _blank(batch["query_id"])
    yield "null_shown_at", _null(batch["shown_at"])
    yield "date_out_of_range", out_of_range(whole(batch["shown_at"]))
    yield "null_doc_ids", _null(batch["doc_ids"])
    yield from _event_rules(batch, documents.lengths, clicks, feedback)
    yield "empty_page", documents.lengths == 0
    yield "null_doc_id", _any(_blank(documents.values), documents)
    yield "null_click", _any(_null(clicks.values), clicks)
    if feedback is not None:
        yield "unknown_event", _any(feedback.values == UNKNOWN, feedback)
    yield "duplicate_document", has_duplicates(*documents[:2], document_hashes)
    yield from _bucket_rules(batch, documents.lengths)


def _event_rules(
    batch: pa.RecordBatch, lengths: np.ndarray, clicks: Lists, feedback: Lists | None
) -> Iterator[Rule]:
    """Clicks may be null on a page with feedback; an empty list of feedback has no event."""
    no_clicks = _null(batch["clicks"])
    if feedback is None:
        yield "null_clicks", no_clicks
        yield "length_mismatch", lengths != clicks.lengths
        return
    mismatch = (feedback.lengths != lengths) & (feedback.lengths > 0)
    if no_clicks is None:
        yield "length_mismatch", mismatch | (lengths != clicks.lengths)
        return
    yield "null_clicks", no_clicks & ~valid(batch[FEEDBACK])
    yield "length_mismatch", mismatch | ((lengths != clicks.lengths) & ~no_clicks)


def _feature_rules(
    batch: pa.RecordBatch, lengths: np.ndarray, features: Lists | None, width: int
) -> Iterator[Rule]:
    """A page may lack all vectors, and a document its vector."""
    if features is None:
        return
    yield "features_mismatch", (features.lengths != lengths) & valid(batch[FEATURES])
    vectors = features.values
    wrong = (lists(vectors).lengths != width) & valid(vectors)
    if wrong.any():
        yield "wrong_vector", _any(wrong, features)


def _bucket_rules(batch: pa.RecordBatch, lengths: np.ndarray) -> Iterator[Rule]:
    swapped, bucket = whole(batch["swapped"]), whole(batch["bucket"])
    present = valid(bucket)
    if present.any():
        encoded = bucket.dictionary_encode()
        names, code = encoded.dictionary.to_pylist(), encoded.indices.fill_null(0).to_numpy()
        depth = np.array([_depth(name) for name in names], np.int64)[code]
        has_arms = np.array([not is_shuffle(name) for name in names])[code]
        yield "bad_bucket", present & (depth < 0)
        yield "bucket_past_end", present & (depth > lengths)
        yield "bucket_without_arm", present & has_arms & ~valid(swapped)
    if swapped.null_count < len(swapped):
        is_swapped = swapped.fill_null(False).to_numpy(zero_copy_only=False)
        yield "swap_without_bucket", is_swapped & ~present


def _depth(name: str) -> int:
    """Return the deepest position of a bucket, or -1 if the name does not parse."""
    try:
        return min(parse_bucket(name).last_position, _MAX_DEPTH)
    except ValueError:
        return -1


def _null(column: pa.Array) -> np.ndarray | None:
    return None if column.null_count == 0 else ~valid(column)


def _blank(column: pa.Array) -> np.ndarray | None:
    array = whole(column)
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset :][: len(array) + 1]
    empty = offsets[1:] == offsets[:-1]
    null = _null(array)
    if null is None:
        return empty if empty.any() else None
    return empty | null


def _any(elements: np.ndarray | None, rows: Lists) -> np.ndarray | None:
    """Return the rows (bool) with at least one true element."""
    if elements is None:
        return None
    total = offsets_of(elements)
    return total[rows.starts + rows.lengths] > total[rows.starts]
