from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.support import oracle
from tests.support.strategies import SHOWN, any_pages, as_batch, good_pages
from ulr.clicklog.contract import check_pages


@given(st.lists(any_pages(), min_size=1, max_size=20))
def test_reasons_equal_those_of_a_plain_python_reference(pages):
    assert check_pages(as_batch(pages)).reason.to_pylist() == [oracle.broken_rule(p) for p in pages]


@given(st.lists(good_pages(), min_size=1, max_size=10))
def test_valid_pages_break_no_rule(pages):
    assert check_pages(as_batch(pages)).bad.size == 0


@given(st.lists(any_pages(), min_size=3, max_size=12), st.integers(1, 3))
def test_a_slice_of_a_batch_is_checked_like_the_whole(pages, start):
    batch = as_batch(pages)
    whole = check_pages(batch).reason.to_pylist()
    assert check_pages(batch.slice(start)).reason.to_pylist() == whole[start:]


def test_a_problem_recorded_by_the_reader_takes_precedence_over_every_rule():
    batch = as_batch([{"session_id": None, "clicks": None}])
    at = batch.schema.get_field_index("problem")
    batch = batch.set_column(at, batch.schema.field(at), ["bad_type"])
    assert check_pages(batch).reason.to_pylist() == ["bad_type"]


def test_a_repeated_document_is_detected_past_64_positions():
    docs = [f"d{i}" for i in range(100)]
    good = {"session_id": "s", "query_id": "q", "shown_at": SHOWN, "clicks": [False] * 100}
    pages = [good | {"doc_ids": docs}, good | {"doc_ids": docs[:99] + docs[:1]}]
    assert check_pages(as_batch(pages)).reason.to_pylist() == [None, "duplicate_document"]


def test_a_bucket_with_a_huge_position_is_past_the_end_of_the_page():
    good = {"session_id": "s", "query_id": "q", "shown_at": SHOWN, "doc_ids": ["a"],
            "clicks": [True]}  # fmt: skip
    pages = [good, good | {"bucket": f"1:{10**30}", "swapped": True}]
    assert check_pages(as_batch(pages)).reason.to_pylist() == [None, "bucket_past_end"]
