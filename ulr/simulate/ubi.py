"""Pages in the shape of User Behavior Insights 1.3: lines of JSON, as an export of its two indices.

`ubi_queries` has a line per page, `ubi_events` one per click and one per event of feedback. The
swap experiments of the pages are not logged: they are rank changes whose cause the log does not
have.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import list_array, offsets_and_values
from ulr.kernels.layout import Ragged
from ulr.warehouse.schema import FEEDBACK

QUERIES, EVENTS = "ubi_queries", "ubi_events"
CLICK = "click"
_DELAY_S = 5  # from a page to its first event, and from one event to the next


def query_lines(pages: pa.Table) -> str:
    """Return a line for each page."""
    texts = _texts(pages["doc_ids"].combine_chunks())
    return _lines(
        len(pages),
        application=_quoted(pages["segment"]),
        query_id=_quoted(pages["session_id"]),
        client_id=_quoted(_clients(pages)),
        user_query=_quoted(pages["query_id"]),
        object_id_field='"id"',
        timestamp=_quoted(_times(pages["shown_at"])),
        query_response_hit_ids=texts,
    )


def event_lines(pages: pa.Table) -> str:
    """Return a line for each click and each event, in the order of pages and positions."""
    offsets, documents = offsets_and_values(pages["doc_ids"])
    lists = Ragged(offsets)
    names, clicked = _actions(pages, len(documents))
    document = np.repeat(np.arange(len(documents)), clicked)
    page = lists.owner()[document]
    rows = pages.select(["segment", "session_id", "shown_at", "query_id"]).take(pa.array(page))
    _, first, number = np.unique(page, return_index=True, return_inverse=True)
    delay = (1 + np.arange(page.size) - first[number]) * _DELAY_S * 1_000_000
    times = pc.add(rows["shown_at"], pa.array(delay, pa.duration("us")))
    ordinal = (lists.within() + 1)[document]
    return _lines(
        len(rows),
        application=_quoted(rows["segment"]),
        action_name=_quoted(names),
        query_id=_quoted(rows["session_id"]),
        client_id=_quoted(_clients(rows)),
        timestamp=_quoted(_times(times)),
        user_query=_quoted(rows["query_id"]),
        event_attributes=pc.binary_join_element_wise(
            '{"object":{"object_id":', _quoted(documents.take(pa.array(document))),
            ',"object_id_field":"id"},"position":{"ordinal":',
            pa.array(ordinal).cast(pa.string()), "}}", "",
        ),
    )  # fmt: skip


def _actions(pages: pa.Table, documents: int) -> tuple[pa.Array, np.ndarray]:
    """Return the names of all actions, by document, and the number of each document's actions."""
    clicks = offsets_and_values(pages["clicks"])[1].to_numpy(zero_copy_only=False)
    if FEEDBACK not in pages.column_names:
        return pa.array([CLICK]).take(pa.array(np.zeros(clicks.sum(), np.int64))), clicks * 1
    events = offsets_and_values(pages[FEEDBACK])[1]
    both = pa.concat_arrays([pa.array([CLICK]).take(pa.array(np.zeros(documents, int))), events])
    order = np.arange(2 * documents).reshape(2, documents).T  # a click, then its event
    present = np.stack([clicks, ~np.asarray(events.is_null())], axis=1)
    return both.take(pa.array(order[present])), present.sum(axis=1)


def _clients(rows: pa.Table) -> pa.Array:
    return pc.binary_join_element_wise("c-", pc.utf8_slice_codeunits(rows["session_id"], 0, 4), "")


def _times(times: pa.ChunkedArray) -> pa.Array:
    """Return times to the millisecond, as 2026-01-31T12:00:00.000Z."""
    milliseconds = pc.cast(times, pa.timestamp("ms", "UTC"), safe=False)
    return pc.strftime(milliseconds, "%Y-%m-%dT%H:%M:%SZ")


def _quoted(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return texts as JSON; null is null."""
    for character in ("\\", '"'):
        texts = pc.replace_substring(texts, character, "\\" + character)
    return pc.binary_join_element_wise('"', texts, '"', "")


def _texts(lists: pa.Array) -> pa.Array:
    """Return lists of texts as JSON arrays."""
    offsets, values = offsets_and_values(lists)
    quoted = list_array(np.diff(offsets), _quoted(values))
    return pc.binary_join_element_wise("[", pc.binary_join(quoted, ","), "]", "")


def _lines(count: int, **fields: pa.Array | pa.ChunkedArray | str) -> str:
    """Return a JSON object per row, each with the fields that it has."""
    if not count:
        return ""
    parts = [pa.array([None] * count, pa.string())]
    for name, values in fields.items():
        column = pa.array([values] * count) if isinstance(values, str) else values
        parts.append(pc.binary_join_element_wise(f'"{name}":', column, ""))
    joined = pc.binary_join_element_wise(*parts, ",", null_handling="skip")
    objects = pc.binary_join_element_wise("{", joined, "}\n", "")
    chunks = objects.to_pylist()
    return "".join(chunks)
