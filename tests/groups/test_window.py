"""The groups of a window: published dates and the sum of their histograms."""

import datetime as dt
from collections import Counter

import pyarrow as pa
import pytest

from ulr.errors import UserError
from ulr.groups.window import groups_files, groups_fingerprints, sum_window, window_dates
from ulr.warehouse.schema import groups_schema
from ulr.warehouse.tables import Warehouse

DATES = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]


@pytest.fixture
def warehouse(tmp_path):
    warehouse = Warehouse(str(tmp_path))
    for date in DATES:
        with warehouse.writing("groups", f"dt={date}", f"of-{date}") as transaction:
            transaction.write_table(groups_schema.empty_table())
            transaction.publish({})
    return warehouse


def test_a_window_has_the_published_dates_up_to_its_last_day(warehouse):
    assert window_dates(warehouse, "2026-01-02", 30) == DATES
    assert window_dates(warehouse, "2026-01-02", 1) == DATES[1:]
    assert window_dates(warehouse, "2026-01-01..2026-01-09", 1) == DATES


def test_a_window_without_groups_is_reported_with_the_dates_that_exist(warehouse):
    with pytest.raises(UserError, match="there is dt=2026-01-01 to dt=2026-01-02"):
        window_dates(warehouse, "2025-01-01", 30)


def test_files_and_fingerprints_cover_all_dates(warehouse):
    assert len(groups_files(warehouse, DATES)) == 2
    assert groups_fingerprints(warehouse, DATES) == {
        "dt=2026-01-01": "of-2026-01-01",
        "dt=2026-01-02": "of-2026-01-02",
    }
    with pytest.raises(UserError, match="has no groups dt=2026-01-03"):
        groups_files(warehouse, [*DATES, dt.date(2026, 1, 3)])


def test_equal_rankings_are_summed_over_dates_and_buckets():
    plain = {"query_id": "q", "segment": None, "bucket": None, "swapped": None, "ranking": 5,
             "doc_ids": ["a", "b"], "patterns": [0, 1], "counts": [7, 2]}  # fmt: skip
    swapped = plain | {"bucket": "1:2", "swapped": True, "patterns": [1, 3], "counts": [1, 4]}
    mobile = plain | {"segment": "mobile"}
    table = pa.Table.from_pylist([mobile, swapped, plain, plain], schema=groups_schema)
    rows, (word_offsets, words, count_offsets, counts) = sum_window(table)
    assert rows["segment"].to_pylist() == ["mobile", None]
    assert word_offsets.tolist() == count_offsets.tolist() == [0, 2, 5]
    sums = Counter(dict(zip(words[2:].tolist(), counts[2:].tolist(), strict=True)))
    assert sums == {0: 14, 1: 5, 3: 4}
