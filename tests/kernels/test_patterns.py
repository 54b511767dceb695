from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import propensity_loops as loops
from ulr.experiments.buckets import parse_bucket
from ulr.kernels.layout import Patterns
from ulr.kernels.patterns import count_positions
from ulr.propensity.swap_counts import WHOLE, counts_of
from ulr.propensity.tally import ArmTally, exposure_batch
from ulr.warehouse.schema import groups_schema


def group(sessions, *, query="q", segment=None, bucket=None, swapped=None):
    """A row of the groups table from sessions of one length."""
    length = len(sessions[0])
    words = -(-length // 64)
    histogram: dict[int, int] = {}
    for clicks in sessions:
        number = sum(c << i for i, c in enumerate(clicks))
        histogram[number] = histogram.get(number, 0) + 1
    patterns = [
        int(np.uint64(number >> (64 * w) & (2**64 - 1)).astype(np.int64))
        for number in sorted(histogram)
        for w in range(words)
    ]
    return {
        "query_id": query,
        "segment": segment,
        "bucket": bucket,
        "swapped": swapped,
        "ranking": 0,
        "doc_ids": [f"d{i}" for i in range(length)],
        "patterns": patterns,
        "counts": [histogram[n] for n in sorted(histogram)],
    }


def batch_of(groups):
    return pa.RecordBatch.from_pylist(groups, schema=groups_schema)


def tally_of(*batches, max_position=70):
    tally = ArmTally(max_position)
    for batch in batches:
        tally.add(batch)
    return by_segment(pa.Table.from_batches([tally.rows()]), max_position)


def by_segment(rows, positions):
    """Every segment's counts by themselves."""
    names = rows["segment"]
    return {
        name: counts_of(
            rows.filter(pc.is_null(names) if name is None else pc.equal(names, name)), positions
        )
        for name in set(names.to_pylist())
    }


def draw(rng, pages, length, rate=0.3):
    return (rng.random((pages, length)) < rate).astype(int).tolist()


@pytest.mark.parametrize("length", [1, 5, 64, 65, 130])
def test_counts_equal_a_loop_over_the_sessions(length):
    rng = np.random.default_rng(length)
    bucket = "1:5" if length >= 5 else None
    sessions = draw(rng, 60, length)
    swapped = None if bucket is None else True
    found = tally_of(batch_of([group(sessions, bucket=bucket, swapped=swapped)]))[None]
    arm = found.buckets[bucket].swapped if bucket else found.outside
    touched = parse_bucket(bucket).positions if bucket else ()
    conditions = {p: (p,) for p in touched} | ({WHOLE: touched} if touched else {})
    together, *given = loops.arm_counts(sessions, 70, conditions.values())
    assert arm.sessions == len(sessions)
    assert arm.together.tolist() == together
    assert [arm.layer(c).tolist() for c in conditions] == given


def test_segments_buckets_and_arms_are_kept_apart():
    rows = [
        group([[1, 0, 0]] * 2, segment="a", bucket="1:2", swapped=False),
        group([[0, 1, 0]] * 3, segment="a", bucket="1:2", swapped=True),
        group([[0, 0, 1]] * 5, segment="b", bucket="1:2", swapped=True),
        group([[1, 1, 1]] * 7, segment="b"),
        group([[1, 1, 1]] * 9, segment=None),
    ]
    found = tally_of(batch_of(rows), max_position=3)
    assert found["a"].buckets["1:2"].kept.clicks.tolist() == [2, 0, 0]
    assert found["a"].buckets["1:2"].swapped.clicks.tolist() == [0, 3, 0]
    assert found["b"].buckets["1:2"].swapped.clicks.tolist() == [0, 0, 5]
    assert found["b"].outside.sessions == 7
    assert found[None].outside.sessions == 9


def test_a_page_whose_arm_is_unknown_is_not_counted():
    rows = [group([[1, 0]], bucket="1:2"), group([[1, 0]], bucket="1:2", swapped=True)]
    found = tally_of(batch_of(rows), max_position=2)[None]
    assert found.sessions == 1


def test_counts_of_batches_add_and_slices_count_only_their_rows():
    rng = np.random.default_rng(3)
    rows = [
        group(draw(rng, 20, 6), bucket=f"1:{2 + i % 3}", swapped=bool(i % 2), segment="m")
        for i in range(40)
    ]
    whole = batch_of(rows)
    once = tally_of(whole)["m"]
    twice = tally_of(whole.slice(0, 17), whole.slice(17))["m"]
    for name, arms in once.buckets.items():
        np.testing.assert_array_equal(arms.kept.together, twice.buckets[name].kept.together)
        again = twice.buckets[name].swapped.layer(WHOLE)
        np.testing.assert_array_equal(arms.swapped.layer(WHOLE), again)


def test_segments_together_are_the_sum_of_each_by_itself():
    rng = np.random.default_rng(4)
    rows = [
        group(draw(rng, 20, 6), bucket="1:3", swapped=bool(i % 2), segment=f"s{i % 5}")
        for i in range(20)
    ]
    tally = ArmTally(6)
    tally.add(batch_of(rows))
    table = pa.Table.from_batches([tally.rows()])
    parts = [f.buckets["1:3"].swapped for f in by_segment(table, 6).values()]
    pooled = counts_of(table, 6).buckets["1:3"].swapped
    assert pooled.sessions == sum(arm.sessions for arm in parts) == 200
    for condition in (0, 1, 3, WHOLE):
        added = sum(arm.layer(condition) for arm in parts)
        np.testing.assert_array_equal(pooled.layer(condition), added)


def test_half_a_million_counts_of_fifty_positions_make_no_object_each():
    """Rows of Python objects took 300 bytes a count, and a second for every segment."""
    together = np.ones((16, 6, 50, 50), np.int64)
    tally = ArmTally(50)
    tally.keys = {("s", f"1:{k}", swapped): 2 * k - 4 + swapped for k in range(2, 10)
                  for swapped in (False, True)}  # fmt: skip
    tally.together = np.triu(together)
    table = pa.Table.from_batches([tally.rows()])
    tracemalloc.start()
    counts_of(table, 50)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.num_rows > 100_000
    assert peak < 100 * table.num_rows


def test_more_keys_than_there_was_room_for_are_all_kept():
    rows = [group([[1, 1]], segment=f"s{i}", bucket="1:2", swapped=True) for i in range(50)]
    found = tally_of(batch_of(rows), max_position=2)
    assert len(found) == 50
    assert all(f.buckets["1:2"].swapped.layer(WHOLE).sum() == 4 for f in found.values())


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_exposures_equal_a_loop_over_the_sessions(data):
    groups = []
    for number in range(data.draw(st.integers(1, 4))):
        length = data.draw(st.integers(1, 70))
        pages = st.lists(st.integers(0, 1), min_size=length, max_size=length)
        groups.append((f"q{number}", data.draw(st.lists(pages, min_size=1, max_size=4))))
    batch = batch_of([group(sessions, query=q) for q, sessions in groups])
    rows = exposure_batch(batch, 66).to_pylist()
    expected = [
        (q, f"d{k}", k + 1, sum(s[k] for s in sessions), len(sessions))
        for q, sessions in groups
        for k in range(min(len(sessions[0]), 66))
    ]
    names = ("query_id", "doc_id", "position", "clicks", "impressions")
    assert [tuple(r[n] for n in names) for r in rows] == expected


def test_counting_positions_of_no_groups_gives_nothing():
    none, start = np.zeros(0, np.int64), np.zeros(1, np.int64)
    sessions, clicks = count_positions(none, Patterns(start, none, start, none))
    assert sessions.size == clicks.size == 0
