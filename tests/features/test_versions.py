"""With features by day, a group takes those of its day, and equal rows are stored once."""

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.pair_inputs import group, groups_of
from ulr.features.join import join_features
from ulr.features.layout import day_field
from ulr.features.versions import hash_vectors
from ulr.features.window import load_window
from ulr.warehouse.schema import features_schema

DOCUMENTS = "uvwx"
DAYS = (10, 11, 12)


def with_days(table, days):
    return table.append_column(day_field, pa.array(days, pa.int32()))


@st.composite
def inputs(draw):
    """Random groups and features with days. Vectors are drawn from few, so that some repeat."""
    groups, features = [], []
    for _ in range(draw(st.integers(1, 8))):
        docs = draw(st.permutations(DOCUMENTS))[: draw(st.integers(1, 3))]
        clicked = st.sampled_from([(), (1,)])
        patterns = draw(st.dictionaries(clicked, st.integers(1, 5), min_size=1, max_size=2))
        row = group(draw(st.sampled_from("ab")), docs, patterns, draw(st.sampled_from([None, "s"])))
        groups.append((row, draw(st.sampled_from(DAYS))))
    for _ in range(draw(st.integers(1, 12))):
        row = {
            "query_id": draw(st.sampled_from("abc")), "doc_id": draw(st.sampled_from(DOCUMENTS)),
            "features": [draw(st.sampled_from([0.0, 1.0, float("nan")])), 5.0],
            "label": draw(st.sampled_from([None, 0, 2])),
        }  # fmt: skip
        features.append((row, draw(st.sampled_from(DAYS))))
    return groups, features


def vector(row):
    return None if row is None else str(row["features"])


def joined_by_loops(groups, features):
    """{query: (sums of sessions, distinct rows, labels of documents, repeated rows)}."""
    result = {}
    for query in sorted({g["query_id"] for g, _ in groups}):
        own = [(g, day) for g, day in groups if g["query_id"] == query]
        rows = [(f, day) for f, day in features if f["query_id"] == query]
        first, repeats, labels = {}, 0, {}
        shown = {(d, day) for g, day in own for d in g["doc_ids"]}
        for f, day in rows:
            key = f["doc_id"], day
            repeats += key in first and key in shown
            first.setdefault(key, f)
        latest = {}
        for (doc, _), f in sorted(first.items(), key=lambda item: item[0][1]):
            latest[doc] = f
        labels = {doc: f["label"] for doc, f in latest.items()}
        sums, distinct = Counter(), set()
        for g, day in own:
            ranking = tuple((d, vector(first.get((d, day)))) for d in g["doc_ids"])
            distinct |= set(ranking)
            for word, count in zip(g["patterns"], g["counts"], strict=True):
                sums[g["segment"], ranking, word] += count
        distinct |= {(d, vector(f)) for d, f in latest.items() if labels[d] is not None}
        result[query] = sums, distinct, labels, repeats
    return result


@settings(deadline=None)
@given(inputs(), st.randoms(use_true_random=False))
def test_a_window_by_day_equals_plain_loops(drawn, random):
    groups, features = drawn
    table = with_days(
        pa.Table.from_pylist([f for f, _ in features], features_schema), [d for _, d in features]
    )
    want = joined_by_loops(groups, features)
    random.shuffle(groups)  # Spark's order of blocks is not known
    shown = with_days(groups_of(*(g for g, _ in groups)), [d for _, d in groups])
    joined = join_features(shown, table)
    assert joined["query_id"].to_pylist() == list(want)
    for row in joined.to_pylist():
        sums, distinct, labels, repeats = want[row["query_id"]]
        lists = [row["features"][n : n + 2] for n in range(0, 2 * row["featured"], 2)]
        vectors = [str(v) for v in lists] + [None] * (len(row["doc_ids"]) - len(lists))
        rows = list(zip(row["doc_ids"], vectors, strict=True))
        assert len(rows) == len(set(rows))
        assert set(rows) == distinct
        for (doc, found), label in zip(rows, row["labels"], strict=True):
            assert label == (labels[doc] if found is not None else None)
        assert row["duplicates"] == repeats
        assert sums_of(row, rows) == sums
        keys = [(s, r) for s, r in zip(row["segments"], row["rankings"], strict=True)]
        assert keys == sorted(keys, key=lambda key: (key[0] is None, key[0] or "", key[1]))


def sums_of(row, rows):
    sums, at, docs = Counter(), 0, 0
    for n, size in enumerate(row["group_sizes"]):
        ranking = tuple(rows[r] for r in row["doc_rows"][docs : docs + size])
        for _ in range(row["pattern_counts"][n]):
            assert (row["segments"][n], ranking, row["patterns"][at]) not in sums  # added up
            sums[row["segments"][n], ranking, row["patterns"][at]] += row["counts"][at]
            at += 1
        docs += size
    return sums


@settings(deadline=None)
@given(inputs())
def test_features_that_never_change_give_the_window_of_one_day(drawn):
    groups, features = drawn
    one = pa.Table.from_pylist([f for f, _ in features], features_schema)
    rows = groups_of(*(g for g, _ in groups))
    daily = pa.concat_tables([with_days(one, [day] * one.num_rows) for day in reversed(DAYS)])
    by_day = join_features(with_days(rows, [d for _, d in groups]), daily)
    assert by_day.drop_columns("duplicates").equals(
        join_features(rows, one).drop_columns("duplicates")
    ) or _same_but_nan(by_day, join_features(rows, one))


def _same_but_nan(one, two):
    a, b = load_window(one, None), load_window(two, None)
    np.testing.assert_array_equal(a.matrix, b.matrix)
    assert a.names.equals(b.names)
    assert a.row_of.tolist() == b.row_of.tolist()
    assert a.histograms.patterns.counts.tolist() == b.histograms.patterns.counts.tolist()
    return True


def test_vectors_are_hashed_by_their_values():
    rows = [[1.0, 2.0], [2.0, 1.0], [1.0, 2.0], [float("nan"), 2.0], [None, 2.0], [], None]
    chunks = pa.chunked_array([pa.array(rows[:3], pa.list_(pa.float32())).slice(1),
                               pa.array(rows[2:], pa.list_(pa.float32()))])  # fmt: skip
    hashed = hash_vectors(chunks).tolist()
    assert hashed[1] == hashed[2]
    assert hashed[3] == hashed[4]
    assert len(set(hashed)) == 4
