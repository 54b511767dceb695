from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.support import oracle
from tests.support.strategies import SHOWN, as_batch, good_pages
from ulr.clicklog.contract import check_pages
from ulr.groups.histograms import (
    canonical,
    fold_pages,
    merge,
    partition_of,
    transit_schema,
)
from ulr.warehouse.schema import groups_schema


def fold(pages: list[dict], max_position: int = 50) -> pa.Table:
    checked = check_pages(as_batch(pages))
    return fold_pages(checked, checked.good, max_position)


pages_lists = st.lists(good_pages(), min_size=1, max_size=30)


@given(pages_lists)
def test_groups_expand_back_to_the_click_vectors_of_their_pages(pages):
    table = canonical(merge([fold(pages)]))
    assert oracle.expand_groups(table.to_pylist()) == oracle.click_histograms(pages, 50)


@given(st.lists(pages_lists, min_size=1, max_size=4), st.randoms())
def test_merging_in_any_order_and_grouping_gives_the_same_table(parts, random):
    tables = [fold(pages) for pages in parts]
    together = canonical(merge([fold([p for pages in parts for p in pages])]))
    random.shuffle(tables)
    step_by_step = tables[0]
    for table in tables[1:]:
        step_by_step = merge([table, step_by_step])
    assert canonical(merge(tables)).equals(together)
    assert canonical(step_by_step).equals(together)


@given(st.lists(good_pages(max_length=150, queries=1), min_size=1, max_size=6))
def test_patterns_of_more_than_64_positions_are_preserved(pages):
    table = canonical(merge([fold(pages, max_position=200)]))
    assert oracle.expand_groups(table.to_pylist()) == oracle.click_histograms(pages, 200)


@given(pages_lists, st.integers(1, 5))
def test_lists_are_truncated_at_max_position(pages, last):
    table = canonical(merge([fold(pages, last)]))
    assert oracle.expand_groups(table.to_pylist()) == oracle.click_histograms(pages, last)


@given(pages_lists)
def test_patterns_are_sorted_and_the_ranking_is_the_hash_of_the_documents(pages):
    for row in canonical(merge([fold(pages)])).to_pylist():
        assert row["patterns"] == sorted(set(row["patterns"]))
        assert row["ranking"] == oracle.ranking_hash(row["doc_ids"])


@given(pages_lists)
def test_adding_the_same_pages_twice_doubles_every_count(pages):
    doubled = canonical(merge([fold(pages), fold(pages)]))
    expected = {k: Counter({c: 2 * n for c, n in h.items()})
                for k, h in oracle.click_histograms(pages, 50).items()}  # fmt: skip
    assert oracle.expand_groups(doubled.to_pylist()) == expected


def test_merging_nothing_gives_an_empty_table():
    assert merge([]).num_rows == 0
    assert canonical(merge([transit_schema.empty_table()])).schema.equals(groups_schema)


@given(pages_lists, st.integers(1, 9))
def test_all_groups_of_a_query_are_in_one_partition(pages, partitions):
    table = merge([fold(pages)])
    part = partition_of(table, partitions)
    assert ((part >= 0) & (part < partitions)).all()
    for query in set(table["query_id"].to_pylist()):
        rows = np.array(table["query_id"].to_pylist()) == query
        assert len(set(part[rows])) == 1


def test_a_group_with_thousands_of_patterns_stays_sorted_and_complete():
    length, sessions = 13, 3000
    docs = [f"d{i}" for i in range(length)]
    base = {"session_id": "s", "query_id": "q", "shown_at": SHOWN, "doc_ids": docs,
            "segment": None, "bucket": None, "swapped": None}  # fmt: skip
    masks = np.random.default_rng(0).integers(0, 2**length, sessions).tolist()
    pages = [base | {"clicks": [bool(m >> k & 1) for k in range(length)]} for m in masks]
    (row,) = canonical(merge([fold(pages)])).to_pylist()
    assert dict(zip(row["patterns"], row["counts"], strict=True)) == Counter(masks)
    assert row["patterns"] == sorted(set(masks))
