from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from tests.support import propensity_loops as loops
from tests.support.session_groups import counts_by_segment, group, sessions_of
from ulr.experiments.buckets import parse_bucket
from ulr.propensity.daily.arms import ArmTally, cut_counts, sum_counts
from ulr.propensity.swap_counts import ALL_CLICKED, counts_of
from ulr.warehouse.schema import groups_schema


def batch_of(groups):
    return pa.RecordBatch.from_pylist(groups, schema=groups_schema)


def tally_of(*batches, max_position=70):
    return counts_by_segment(rows_of(*batches), max_position)


def rows_of(*batches):
    tally = ArmTally()
    for batch in batches:
        tally.add(batch)
    return tally.rows()


def draw(rng, pages, length, rate=0.3):
    return (rng.random((pages, length)) < rate).astype(int).tolist()


@pytest.mark.parametrize("length", [1, 5, 64, 65, 130])
def test_counts_equal_a_loop_over_the_sessions(length):
    rng = np.random.default_rng(length)
    bucket = "1:5" if length >= 5 else None
    sessions = draw(rng, 60, length)
    swapped = None if bucket is None else True
    counts = tally_of(batch_of([group(sessions, bucket=bucket, swapped=swapped)]))[None]
    arm = counts.buckets[bucket].swapped if bucket else counts.outside
    touched = parse_bucket(bucket).positions if bucket else ()
    conditions = {p: (p,) for p in touched} | ({ALL_CLICKED: touched} if touched else {})
    co_clicks, *conditional = loops.arm_counts(sessions, 70, conditions.values())
    assert arm.sessions == len(sessions)
    assert arm.co_clicks.tolist() == co_clicks
    assert [arm.given(c).tolist() for c in conditions] == conditional


def test_segments_buckets_and_arms_are_counted_separately():
    rows = [
        group([[1, 0, 0]] * 2, segment="a", bucket="1:2", swapped=False),
        group([[0, 1, 0]] * 3, segment="a", bucket="1:2", swapped=True),
        group([[0, 0, 1]] * 5, segment="b", bucket="1:2", swapped=True),
        group([[1, 1, 1]] * 7, segment="b"),
        group([[1, 1, 1]] * 9, segment=None),
    ]
    counts = tally_of(batch_of(rows), max_position=3)
    assert counts["a"].buckets["1:2"].kept.clicks.tolist() == [2, 0, 0]
    assert counts["a"].buckets["1:2"].swapped.clicks.tolist() == [0, 3, 0]
    assert counts["b"].buckets["1:2"].swapped.clicks.tolist() == [0, 0, 5]
    assert counts["b"].outside.sessions == 7
    assert counts[None].outside.sessions == 9


def test_a_page_whose_arm_is_unknown_is_not_counted():
    rows = [group([[1, 0]], bucket="1:2"), group([[1, 0]], bucket="1:2", swapped=True)]
    counts = tally_of(batch_of(rows), max_position=2)[None]
    assert counts.buckets["1:2"].sessions == 1


def test_batches_add_up_and_a_slice_counts_only_its_rows():
    rng = np.random.default_rng(3)
    rows = [
        group(draw(rng, 20, 6), bucket=f"1:{2 + i % 3}", swapped=bool(i % 2), segment="m")
        for i in range(40)
    ]
    whole = batch_of(rows)
    once = tally_of(whole)["m"]
    twice = tally_of(whole.slice(0, 17), whole.slice(17))["m"]
    for name, arms in once.buckets.items():
        np.testing.assert_array_equal(arms.kept.co_clicks, twice.buckets[name].kept.co_clicks)
        again = twice.buckets[name].swapped.given(ALL_CLICKED)
        np.testing.assert_array_equal(arms.swapped.given(ALL_CLICKED), again)


def test_all_traffic_is_the_sum_of_its_segments():
    rng = np.random.default_rng(4)
    rows = [
        group(draw(rng, 20, 6), bucket="1:3", swapped=bool(i % 2), segment=f"s{i % 5}")
        for i in range(20)
    ]
    table = rows_of(batch_of(rows))
    parts = [f.buckets["1:3"].swapped for f in counts_by_segment(table, 6).values()]
    pooled = counts_of(table, 6).buckets["1:3"].swapped
    assert pooled.sessions == sum(arm.sessions for arm in parts) == 200
    np.testing.assert_array_equal(pooled.co_clicks, sum(arm.co_clicks for arm in parts))
    for condition in (1, 3, ALL_CLICKED):
        added = sum(arm.given(condition) for arm in parts)
        np.testing.assert_array_equal(pooled.given(condition), added)


def test_counts_of_fifty_positions_are_read_without_an_object_per_count():
    """Rows of Python objects took 300 bytes per count."""
    everything = [[1] * 50]
    rows = [
        group(everything, segment=segment, bucket=f"1:{k}", swapped=swapped)
        for segment in ("s", "t")
        for k in range(2, 10)
        for swapped in (False, True)
    ]
    table = rows_of(batch_of(rows))
    tracemalloc.start()
    counts_of(table, 50)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.num_rows > 100_000
    assert peak < 100 * table.num_rows


def test_memory_grows_with_the_counts_and_not_with_buckets_and_positions():
    """A dense array of 199 buckets on lists of 200 took 0.76 GB in every task."""
    rng = np.random.default_rng(5)
    rows = [
        group(draw(rng, 20, 200, rate=0.01), bucket=f"1:{k}", swapped=swapped)
        for k in range(2, 201)
        for swapped in (False, True)
    ]
    batch = batch_of(rows)
    rows_of(batch.slice(0, 1))  # compile
    tracemalloc.start()
    table = rows_of(batch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.num_rows < 60_000
    assert peak < 20 << 20


def test_sums_of_tables_equal_one_count_in_one_order():
    rng = np.random.default_rng(6)
    rows = [
        group(draw(rng, 20, 6), bucket=f"1:{2 + i % 3}", swapped=bool(i % 2), segment=f"s{i % 2}")
        for i in range(40)
    ] + [group(draw(rng, 20, 6))]
    parts = [rows_of(batch_of(rows[i::4])) for i in range(4)]
    assert sum_counts(parts) == sum_counts([rows_of(batch_of(rows))])
    assert sum_counts(parts) == sum_counts(parts[::-1])


def test_a_cut_leaves_the_counts_of_shallower_clicks():
    rows = [
        group([[1, 1, 1, 1]] * 2, bucket="1:2", swapped=True),
        group([[1, 1, 1, 1]] * 3, bucket="1:4", swapped=True),
    ]
    cut = cut_counts(rows_of(batch_of(rows)), 3)
    assert max(cut["l"].to_pylist()) == 3
    conditions = {(r["bucket"], r["condition"]) for r in cut.to_pylist()}
    assert conditions == {("1:2", 0), ("1:2", 1), ("1:2", 2), ("1:2", -1), ("1:4", 0)}


def test_the_tally_grows_with_the_number_of_arms():
    rows = [group([[1, 1]], segment=f"s{i}", bucket="1:2", swapped=True) for i in range(50)]
    counts = tally_of(batch_of(rows), max_position=2)
    assert len(counts) == 50
    assert all(f.buckets["1:2"].swapped.given(ALL_CLICKED).sum() == 4 for f in counts.values())


def test_pages_of_shuffles_are_counted_by_their_shuffled_documents():
    """The arm of a page is not used, and a page of one document has nothing to compare."""
    rng = np.random.default_rng(7)
    rows = [
        group(draw(rng, 30, 3), bucket="shuffle"),
        group(draw(rng, 30, 5), bucket="shuffle", swapped=True),
        group(draw(rng, 30, 5), bucket="shuffle:3", swapped=False),
        group(draw(rng, 30, 1), bucket="shuffle", swapped=True),
        group(draw(rng, 30, 5), bucket="1:2", swapped=True),
    ]
    counts = tally_of(batch_of(rows[:3]), batch_of(rows[3:]), max_position=5)[None]
    sessions = [[*sessions_of(row)] for row in rows]
    assert list(counts.shuffles) == [3, 5]
    assert list(counts.buckets) == ["1:2"]
    for depth, own in ((3, sessions[0] + sessions[2]), (5, sessions[1])):
        co_clicks, both = loops.arm_counts(own, 5, [(1, 2)])
        assert counts.shuffles[depth].sessions == len(own)
        assert counts.shuffles[depth].co_clicks.tolist() == co_clicks
        assert counts.shuffles[depth].given(ALL_CLICKED).tolist() == both
    assert counts.unswapped().sessions == 0


def test_a_cut_leaves_all_counts_of_a_deeper_shuffle():
    cut = cut_counts(rows_of(batch_of([group([[1, 1, 1, 1]], bucket="shuffle")])), 3)
    counts = counts_of(cut, 3)
    assert counts.shuffles[4].given(ALL_CLICKED).tolist() == [[1, 1, 1]] * 3
