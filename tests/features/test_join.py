"""Groups joined with features equal plain loops; the flat arrays of a window refer to its rows."""

from collections import Counter

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.pair_inputs import FEATURES, GROUPS, features_of, group, groups_of
from tests.support.strategies import as_batch, good_pages
from ulr.clicklog.contract import check_pages
from ulr.features.join import join_features
from ulr.features.window import HISTOGRAMS, load_histograms, load_window, only_segment, shown_rows
from ulr.groups.histograms import canonical, fold_pages, merge
from ulr.warehouse.schema import window_schema

DOCUMENTS = "uvwxyz"


@st.composite
def inputs(draw):
    """Random groups of up to three queries, and features of some of their documents."""
    rows = []
    for _ in range(draw(st.integers(1, 8))):
        docs = draw(st.permutations(DOCUMENTS))[: draw(st.integers(1, 4))]
        clicked = st.sets(st.integers(1, len(docs)), max_size=len(docs)).map(
            lambda c: tuple(sorted(c))
        )
        patterns = draw(st.dictionaries(clicked, st.integers(1, 5), min_size=1, max_size=3))
        segment, bucket = (
            draw(st.sampled_from([None, "s", "t"])),
            draw(st.sampled_from([None, "1:2"])),
        )
        rows.append(group(draw(st.sampled_from("abc")), docs, patterns, segment, bucket))
    keys = draw(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(DOCUMENTS))))
    features = features_of(keys).to_pylist()
    for row in features:
        row["label"] = draw(st.sampled_from([None, 0, 2]))
    return rows, features


def joined_by_loops(groups, features):
    """{query: (documents with features, those without, duplicates, sums of sessions)}."""
    result = {}
    for query in sorted({g["query_id"] for g in groups}):
        own = [g for g in groups if g["query_id"] == query]
        shown = {d for g in own for d in g["doc_ids"]}
        first, duplicates = {}, 0
        for row in features:
            if row["query_id"] == query:
                if row["doc_id"] in first:
                    duplicates += row["doc_id"] in shown
                else:
                    first[row["doc_id"]] = row
        with_features = [r for d, r in first.items() if d in shown or r["label"] is not None]
        sums = Counter()
        for g in own:
            for word, count in zip(g["patterns"], g["counts"], strict=True):
                sums[g["segment"], tuple(g["doc_ids"]), word] += count
        result[query] = with_features, shown - set(first), duplicates, sums
    return result


def sums_of(row):
    """The sessions of a window's row by segment, ranking and pattern."""
    sums, docs, at = Counter(), 0, 0
    for n, size in enumerate(row["group_sizes"]):
        names = tuple(row["doc_ids"][r] for r in row["doc_rows"][docs : docs + size])
        for _ in range(row["pattern_counts"][n]):
            sums[row["segments"][n], names, row["patterns"][at]] += row["counts"][at]
            at += 1
        docs += size
    return sums


@settings(deadline=None)
@given(inputs())
def test_a_window_equals_plain_loops(drawn):
    rows, features = drawn
    table = join_features(groups_of(*rows), pa.Table.from_pylist(features, FEATURES.schema))
    assert table.schema == window_schema
    want = joined_by_loops(rows, features)
    assert table["query_id"].to_pylist() == list(want)
    for row in table.to_pylist():
        featured, others, duplicates, sums = want[row["query_id"]]
        assert row["featured"] == len(featured)
        assert row["doc_ids"][: len(featured)] == [r["doc_id"] for r in featured]
        assert set(row["doc_ids"][len(featured) :]) == others
        assert row["labels"] == [r["label"] for r in featured] + [None] * len(others)
        assert row["features"] == [x for r in featured for x in r["features"]]
        assert row["duplicates"] == duplicates
        assert sums_of(row) == sums


@settings(deadline=None)
@given(inputs(), st.integers(1, 4))
def test_flat_arrays_cut_lists_and_refer_to_the_documents_and_features(drawn, depth):
    rows, features = drawn
    table = join_features(groups_of(*rows), pa.Table.from_pylist(features, FEATURES.schema))
    window = load_window(table, depth)
    (histograms,), segment = load_histograms(table.select(HISTOGRAMS), depth)
    assert segment.equals(window.segment)
    assert histograms.patterns.counts.tolist() == window.histograms.patterns.counts.tolist()
    assert histograms.patterns.words.tolist() == window.histograms.patterns.words.tolist()
    shown = shown_rows(window)
    vectors = {}
    for row in features:
        vectors.setdefault((row["query_id"], row["doc_id"]), row["features"])
    for view in (window, shown):
        names, at = view.names.to_pylist(), 0
        full = {tuple(g["doc_ids"][:depth]) for g in rows}
        for g, size in enumerate(view.histograms.sizes):
            docs = [names[r] for r in view.row_of[at : at + size]]
            assert tuple(docs) in full
            query = view.query_ids[int(view.query[g])].as_py()
            for r in view.row_of[at : at + size]:
                assert view.query_rows[view.query[g]] <= r < view.query_rows[view.query[g] + 1]
                vector = vectors.get((query, names[r]))
                found = view.feature_row[r]
                assert (found < 0) == (vector is None)
                assert found < 0 or view.matrix[found].tolist() == vector
            at += size
    assert sorted(set(shown.row_of.tolist())) == list(range(shown.feature_row.size))
    assert shown.row_of.tolist() == _by_appearance(window.row_of.tolist())
    sessions = sum(n for g in rows for n in g["counts"])
    assert window.histograms.patterns.counts.sum() == sessions
    assert window.too_deep == sum(
        max(0, len(key[1]) - depth)
        for q in {g["query_id"] for g in rows}
        for key in {(g["segment"], tuple(g["doc_ids"])) for g in rows if g["query_id"] == q}
    )


def _by_appearance(values):
    numbers = {}
    return [numbers.setdefault(v, len(numbers)) for v in values]


@settings(deadline=None)
@given(inputs())
def test_a_segment_is_the_window_of_its_groups(drawn):
    rows, features = drawn
    rows = [*rows, group("a", ["u", "v"], {(1,): 1}, segment="s")]
    table = pa.Table.from_pylist(features, FEATURES.schema)
    got = only_segment(load_window(join_features(groups_of(*rows), table), 4), "s")
    own = [r for r in rows if r["segment"] == "s"]
    want = load_window(join_features(groups_of(*own), table), 4)
    assert got.query_ids.equals(want.query_ids)
    assert got.query.tolist() == want.query.tolist()
    for one, two in zip(got.histograms.patterns, want.histograms.patterns, strict=True):
        assert one.tolist() == two.tolist()
    assert _shown(got) == _shown(want)


def _shown(window):
    """The name, the features and the label of every shown document."""
    found = []
    for row in window.row_of:
        feature_row = window.feature_row[row]
        vector = None if feature_row < 0 else window.matrix[feature_row].tolist()
        found.append((window.names[int(row)].as_py(), vector, int(window.labels[row])))
    return found


def test_the_window_of_no_groups_is_empty():
    assert join_features(GROUPS.slice(0, 0), FEATURES).num_rows == 0


@settings(deadline=None)
@given(st.lists(good_pages(max_length=150), min_size=1, max_size=8), st.integers(1, 140))
def test_a_cut_keeps_the_first_positions_of_all_click_vectors(pages, depth):
    checked = check_pages(as_batch(pages))
    groups = canonical(merge([fold_pages(checked, checked.good, 200)]))
    window = load_window(join_features(groups, FEATURES.slice(0, 0)), depth)
    got, names = Counter(), window.names.to_pylist()
    documents, patterns = window.histograms.group_docs, window.histograms.patterns
    for g, size in enumerate(window.histograms.sizes):
        docs = tuple(names[r] for r in window.row_of[documents[g] : documents[g + 1]])
        words = patterns.words[patterns.word_offsets[g] : patterns.word_offsets[g + 1]]
        counts = patterns.counts[patterns.count_offsets[g] : patterns.count_offsets[g + 1]]
        for pattern, count in zip(words.reshape(counts.size, -1), counts, strict=True):
            clicks = tuple(bool(int(pattern[k // 64]) >> k % 64 & 1) for k in range(size))
            got[docs, clicks] += int(count)
    assert got == Counter((tuple(p["doc_ids"][:depth]), tuple(p["clicks"][:depth])) for p in pages)
