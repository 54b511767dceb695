"""Hypothesis strategies for pages, good and broken."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
from hypothesis import strategies as st

from ulr.warehouse.schema import plain_read_schema, read_schema

SHOWN = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)
TOO_EARLY_OR_LATE = [
    dt.datetime(1970, 1, 21, tzinfo=dt.timezone.utc),
    dt.datetime(1999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.timezone.utc),
    dt.datetime(2101, 1, 1, tzinfo=dt.timezone.utc),
]


@st.composite
def good_pages(draw, max_length: int = 6, queries: int = 3) -> dict:
    length = draw(st.integers(1, max_length))
    docs = draw(st.permutations([f"d{i}" for i in range(max(length, 3))]))[:length]
    bucket = draw(st.sampled_from([None, "1:2", "shuffle:2"] if length > 1 else [None, "shuffle"]))
    arms = st.sampled_from([None, False, True] if bucket and bucket[0] == "s" else [False, True])
    return {
        "session_id": "s",
        "query_id": f"q{draw(st.integers(1, queries))}",
        "shown_at": SHOWN,
        "doc_ids": docs,
        "clicks": draw(st.lists(st.booleans(), min_size=length, max_size=length)),
        "segment": draw(st.sampled_from([None, "mobile", "1:2"])),
        "bucket": bucket,
        "swapped": draw(arms) if bucket else draw(st.sampled_from([None, False])),
    }


@st.composite
def any_pages(draw) -> dict:
    """Draw a good page with some columns replaced by values that a broken log may hold."""
    page = draw(good_pages())
    odd = {
        "session_id": st.sampled_from([None, "", "s"]),
        "query_id": st.sampled_from([None, "", "q"]),
        "shown_at": st.sampled_from([None, SHOWN, *TOO_EARLY_OR_LATE]),
        "doc_ids": st.none() | st.lists(st.sampled_from([None, "", "a", "b", "c"]), max_size=4),
        "clicks": st.none() | st.lists(st.sampled_from([None, True, False]), max_size=4),
        "bucket": st.sampled_from(
            [
                None,
                "1:2",
                "2:1",
                "1:9",
                "1,2:3,4",
                "1",
                ":",
                "0:1",
                "1:1",
                "a:b",
                "1,2:3",
                "2,1:3,4",
                "shuffle",
                "shuffle:3",
                "shuffle:9",
                "shuffle:1",
                "shuffle:",
                "shuffled",
            ]
        ),
        "swapped": st.sampled_from([None, True, False]),
    }
    for name in draw(st.sets(st.sampled_from(sorted(odd)), max_size=3)):
        page[name] = draw(odd[name])
    return page


def as_batch(pages: list[dict]) -> pa.RecordBatch:
    """Return the pages as a reader of logs gives them."""
    extra = {"source": "log", "problem": None, "raw": None, "repeats": 0}
    rows = [page | extra for page in pages]
    return pa.RecordBatch.from_pylist(rows, schema=plain_read_schema).cast(read_schema)
