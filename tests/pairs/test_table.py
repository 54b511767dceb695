"""From groups and features to the pairs table, without Spark."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from tests.support import oracle_pairs as oracle
from tests.support.pair_inputs import (
    EXAMINATION,
    FEATURES,
    GROUPS,
    THETA,
    features_of,
    group,
    groups_of,
)
from tests.support.pair_samples import independent_propensities
from ulr.errors import InvalidData, UserError
from ulr.features.join import join_features
from ulr.features.matrix import feature_matrix
from ulr.pairs.config import make_pair_config
from ulr.pairs.table import build_pair_table
from ulr.training.data import read_pairs
from ulr.warehouse.schema import features_schema, with_weights


def table_of(method="joint", groups=GROUPS, features=FEATURES, **options):
    options = {"co_click_variance": np.inf, **options}
    return build_pair_table(
        join_features(groups, features), make_pair_config(method, EXAMINATION, **options)
    )


def preferences(table):
    """{(query, better, worse): weight}, added up over the query's lists."""
    weights = {}
    for row in table.to_pylist():
        docs = at = 0
        for size, pairs in zip(row["group_sizes"], row["pair_counts"], strict=True):
            names = [row["doc_ids"][r] for r in row["doc_rows"][docs : docs + size]]
            for p in range(at, at + pairs):
                a, b = names[row["pair_i"][p]], names[row["pair_j"][p]]
                for better, worse, u in ((a, b, row["u_ij"][p]), (b, a, row["u_ji"][p])):
                    key = (row["query_id"], better, worse)
                    weights[key] = weights.get(key, 0.0) + u
            docs, at = docs + size, at + pairs
    return weights


def oracle_preferences(method):
    weights = {}
    for row in GROUPS.to_pylist():
        docs = row["doc_ids"]
        for word, count in zip(row["patterns"], row["counts"], strict=True):
            bits = [word >> k & 1 for k in range(len(docs))]
            u = oracle.session_weights(bits, THETA, EXAMINATION.psi, method, prs_clip=1.0)
            for i, a in enumerate(docs):
                for j, b in enumerate(docs):
                    if i != j:
                        key = (row["query_id"], a, b)
                        weights[key] = weights.get(key, 0.0) + count * u[i][j]
    return weights


@pytest.mark.parametrize("grouping", ["ranking", "query"])
@pytest.mark.parametrize("method", ["naive", "joint", "prs"])
def test_the_weights_of_both_groupings_are_the_sum_over_sessions(method, grouping):
    table, _ = table_of(method, grouping=grouping)
    assert table.schema == with_weights(["u_ij_validation", "u_ji_validation"])
    got, want = preferences(table), oracle_preferences(method)
    assert {k: pytest.approx(v, rel=1e-5, abs=1e-5) for k, v in want.items() if v} == {
        k: v for k, v in got.items() if v
    }


@pytest.mark.parametrize("grouping", ["ranking", "query"])
def test_clicks_are_the_sessions_that_clicked_a_listed_document(grouping):
    want = Counter()
    for row in GROUPS.to_pylist():
        for word, count in zip(row["patterns"], row["counts"], strict=True):
            for k, document in enumerate(row["doc_ids"]):
                want[row["query_id"], document] += count * (word >> k & 1)
    got = Counter()
    for row in table_of("naive", grouping=grouping)[0].to_pylist():
        for r, clicks in zip(row["doc_rows"], row["clicks"], strict=True):
            got[row["query_id"], row["doc_ids"][r]] += clicks
    assert got == Counter({key: clicks for key, clicks in want.items() if key[0] in "ab"})


def test_a_query_is_one_row_with_its_distinct_documents_and_their_features():
    table, _ = table_of()
    assert table["query_id"].to_pylist() == ["a", "b"]
    b = table.to_pylist()[1]
    assert sorted(b["doc_ids"]) == ["x", "y", "z"]
    row = {d: (f, -f) for d, f in zip("zyx", (0.0, 1.0, 2.0), strict=True)}
    flat = [v for d in b["doc_ids"] for v in row[d]]
    assert b["features"] == flat
    assert b["labels"] == [{"z": 1, "y": 2, "x": 0}[d] for d in b["doc_ids"]]


def test_equal_rankings_of_several_buckets_are_one_list():
    table, report = table_of()
    b = table.to_pylist()[1]
    assert b["group_sizes"] == [3, 3]
    assert sorted(b["positions"]) == [1, 1, 2, 2, 3, 3]
    assert report.counts["groups"] == 4
    assert report.counts["sessions"] == 5 + 3 + 2 + 4 + 1 + 6 + 1 + 9


def test_dropped_groups_and_queries_are_counted():
    _, report = table_of()
    assert report.counts["groups_without_pairs"] == 1  # one document: nothing to compare
    assert report.counts["queries_without_pairs"] == 1
    assert report.counts["queries"] == 3


def test_grouping_by_query_keeps_the_position_of_documents_shown_at_one_position():
    table, _ = table_of(grouping="query")
    a, b = table.to_pylist()
    assert a["positions"] == [1, 2]
    assert b["positions"] == [0, 0, 0]
    assert b["group_sizes"] == [3]


@pytest.mark.parametrize("grouping", ["ranking", "query"])
def test_a_document_without_features_is_dropped_and_counted(grouping):
    some = FEATURES.filter(pa.array([True, False, True, True, True, True]))  # no y of query b
    table, report = table_of(features=some, grouping=grouping)
    assert report.counts["documents_without_features"] == 1
    got, want = preferences(table), preferences(table_of(grouping=grouping)[0])
    kept = {k: v for k, v in want.items() if k[0] == "a" or "y" not in k[1:]}
    assert got == pytest.approx(kept)
    arrays = read_pairs([table]).pairs
    assert arrays.rows == 2 + 2
    assert (arrays.doc_row < 2).all()


def test_a_document_without_features_is_an_error_if_the_setting_is_error():
    some = FEATURES.slice(1)
    with pytest.raises(InvalidData, match=r"1 of 6 shown documents.*query b, document z"):
        table_of(features=some, missing_features="error")


def test_the_first_of_two_feature_rows_is_used():
    twice = pa.concat_tables([FEATURES, features_of([("b", "x")])])
    table, report = table_of(features=twice)
    assert report.counts["duplicate_features"] == 1
    assert table.equals(table_of()[0])


def test_a_feature_row_of_another_length_is_an_error_that_names_it():
    odd = features_of([("c", "x")]).to_pylist()
    odd[0]["features"] = [1.0]
    mixed = pa.concat_tables([FEATURES.slice(0, 5), pa.Table.from_pylist(odd, features_schema)])
    with pytest.raises(InvalidData, match="query c, document x: 1 values"):
        table_of(features=mixed)


def test_a_feature_row_of_another_length_is_ignored_if_nothing_uses_it():
    odd = features_of([("b", "never shown")]).to_pylist()
    odd[0] |= {"features": [1.0], "label": None}
    table = pa.concat_tables([pa.Table.from_pylist(odd, features_schema), FEATURES])
    assert table_of(features=table)[0].equals(table_of()[0])
    odd[0]["label"] = 1  # evaluation scores every labelled document of a shown query
    table = pa.concat_tables([pa.Table.from_pylist(odd, features_schema), FEATURES])
    with pytest.raises(InvalidData, match="values where another row has"):
        table_of(features=table)


def test_arrays_of_a_table_are_not_copied():
    table, _ = table_of()
    matrix = read_pairs([table]).features
    assert matrix.ctypes.data == table["features"].chunk(0).flatten().buffers()[1].address
    loose = feature_matrix(FEATURES)
    assert loose.ctypes.data == FEATURES["features"].chunk(0).flatten().buffers()[1].address


def test_a_segment_uses_the_propensities_estimated_for_it():
    mobile = independent_propensities(THETA**2)
    groups = groups_of(
        group("a", ["x", "y"], {(2,): 1}, segment="mobile"),
        group("b", ["x", "y"], {(2,): 1}, segment="desktop"),
    )
    config = make_pair_config("robust", EXAMINATION, {"mobile": mobile})
    table, _ = build_pair_table(join_features(groups, FEATURES), config)
    got = preferences(table)
    assert got["a", "y", "x"] == pytest.approx(1 / THETA[1] ** 2)
    assert got["b", "y", "x"] == pytest.approx(1 / THETA[1])


def test_the_method_labels_needs_no_clicks():
    table, _ = table_of("labels")
    got = preferences(table)
    assert got["b", "y", "z"] == pytest.approx(2 * (3 - 1) / 15)  # gains 2^y - 1, twice: two lists
    assert got["b", "z", "x"] == pytest.approx(2 * (1 - 0) / 15)
    assert table.num_rows == 2


def test_the_table_does_not_depend_on_the_order_of_the_groups():
    table, _ = table_of()
    backwards, _ = table_of(groups=GROUPS.take(pa.array([4, 3, 2, 1, 0])))
    assert table.equals(backwards)


def test_no_groups_give_an_empty_table():
    table, report = table_of(groups=GROUPS.slice(0, 0), features=FEATURES.slice(0, 0))
    assert table.num_rows == 0
    assert report.counts["pairs"] == 0


def test_options_that_cannot_work_are_rejected():
    with pytest.raises(UserError, match="grouping = 'day'"):
        make_pair_config("joint", EXAMINATION, grouping="day")
    short = independent_propensities(THETA[:2])
    with pytest.raises(UserError, match=r"segment s has propensities for 2 positions"):
        make_pair_config("joint", EXAMINATION, {"s": short})
    with pytest.raises(UserError, match="needs positions"):
        make_pair_config("unbiased-lambdamart", EXAMINATION, grouping="query")


@pytest.mark.parametrize("method", ["naive", "unbiased-lambdamart", "dla", "labels"])
def test_methods_without_theta_use_complete_lists(method):
    """With examination of 2 positions they train on what they train on with that of all."""
    window = join_features(GROUPS, FEATURES)
    whole, shallow = (
        build_pair_table(window, make_pair_config(method, examination))
        for examination in (EXAMINATION, EXAMINATION.cut(2))
    )
    columns = [name for name in whole[0].column_names if "validation" not in name]
    assert shallow[0].select(columns).equals(whole[0].select(columns))
    assert shallow[1].counts == whole[1].counts
    assert shallow[1].health.rows() == whole[1].health.rows()


def test_pairs_of_unknown_examination_have_no_weight_in_the_validation_loss():
    table, _ = build_pair_table(
        join_features(GROUPS, FEATURES), make_pair_config("naive", EXAMINATION.cut(2))
    )
    known = 0
    for row in table.to_pylist():
        docs = at = 0
        for size, pairs in zip(row["group_sizes"], row["pair_counts"], strict=True):
            for p in range(at, at + pairs):
                deepest = max(row["pair_i"][p], row["pair_j"][p]) + 1
                weights = row["u_ij_validation"][p], row["u_ji_validation"][p]
                assert deepest <= 2 or weights == (0, 0)
                known += deepest <= 2 and weights != (0, 0)
            docs, at = docs + size, at + pairs
    assert known


@pytest.mark.parametrize("options", [{"method": "robust"}, {"method": "naive", "precision": True}])
def test_weights_with_theta_are_cut_below_it(options):
    config = make_pair_config(examination=EXAMINATION.cut(2), **options)
    table, report = build_pair_table(join_features(GROUPS, FEATURES), config)
    assert max(max(row["group_sizes"]) for row in table.to_pylist()) == 2
    assert report.counts["documents_too_deep"] > 0
