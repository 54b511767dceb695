"""The metrics of one partition: against plain loops, merged from parts, and against the truth."""

import math

import numpy as np
import pyarrow as pa
import pytest

from tests.support import oracle_pairs as oracle
from tests.support.evaluation_loops import click_sums, pair_loss_sum, rank_by, ratio
from tests.support.evaluation_plans import evaluation_plan
from tests.support.pair_inputs import EXAMINATION, FEATURES, GROUPS, THETA, group, groups_of
from tests.support.pair_samples import independent_propensities
from tests.support.worlds import click_log, features_table, groups_table, synthetic_corpus
from ulr.errors import UserError
from ulr.evaluation.metrics import LOGGING, METRICS, is_lower_better
from ulr.evaluation.tasks import evaluate_queries
from ulr.evaluation.totals import Key, metric_values, metrics_table
from ulr.features.join import join_features
from ulr.warehouse.schema import metrics_schema

PLAN = evaluation_plan(EXAMINATION, precision_cuts=[1, 3], max_label=2)


def model(matrix):
    """A fixed function of the first feature, which is 0 to 5 in FEATURES."""
    return np.cos(3.0 * matrix[:, 0])


def scores_of(query):
    return {
        row["doc_id"]: math.cos(3.0 * row["features"][0])
        for row in FEATURES.to_pylist() if row["query_id"] == query
    }  # fmt: skip


def sessions_of(groups):
    """Return {query: [(documents, clicks) of every session]}."""
    sessions = {}
    for row in groups.to_pylist():
        for word, count in zip(row["patterns"], row["counts"], strict=True):
            clicks = [bool(word >> k & 1) for k in range(len(row["doc_ids"]))]
            sessions.setdefault(row["query_id"], []).extend([(row["doc_ids"], clicks)] * count)
    return sessions


def _totals(groups, scorers):
    return evaluate_queries(join_features(groups, FEATURES), scorers, PLAN)


def values(subject="m", against=None):
    totals = evaluate_queries(join_features(GROUPS, FEATURES), {"m": model}, PLAN)
    return metric_values(totals, subject, against)


@pytest.mark.parametrize("subject", ["m", LOGGING])
def test_click_metrics_equal_a_loop_over_sessions(subject):
    got = values(subject)
    per_query = []
    for query, sessions in sessions_of(GROUPS).items():
        if subject == "m":
            per_query.append(click_sums(sessions, THETA, scores_of(query)))
            continue
        sums = [click_sums([s], THETA, {d: -k for k, d in enumerate(s[0])}) for s in sessions]
        per_query.append({n: np.sum([s[n] for s in sums], axis=0) for n in sums[0]})
    for name in ("dcg", "mean_relevant_rank", "precision_at_1", "precision_at_3"):
        x, n, relevant = zip(*(sums[name] for sums in per_query), strict=True)
        for kind, w in (("ips", n), ("snips", relevant)):
            value, error = ratio(x, w)
            assert got[f"{kind}_{name}"].value == pytest.approx(value)
            assert got[f"{kind}_{name}"].standard_error == pytest.approx(error)


def test_golden_metrics_equal_plain_loops():
    got = values()
    labels = {q: [] for q in "abc"}
    for row in FEATURES.to_pylist():
        labels[row["query_id"]].append((scores_of(row["query_id"])[row["doc_id"]], row["label"]))
    positive = [rows for rows in labels.values() if any(y for _, y in rows)]
    lists = [tuple(map(list, zip(*rows, strict=True))) for rows in positive]
    for k in (1, 3, 10):
        want = np.mean([oracle.ndcg(s, y, k) for s, y in lists])
        assert got[f"ndcg_at_{k}"].value == pytest.approx(want)
    assert got["map"].value == pytest.approx(
        np.mean([oracle.average_precision(s, y) for s, y in lists])
    )
    assert got["err"].value == pytest.approx(
        np.mean([oracle.reciprocal_rank(s, y, 2) for s, y in lists])
    )
    assert got["map"].queries == len(lists)


def test_a_label_above_max_label_is_an_error_that_names_the_query():
    """ERR would otherwise stop with a probability above 1."""
    highest = max(y for y in FEATURES["label"].to_pylist() if y is not None)
    plan = evaluation_plan(EXAMINATION, max_label=highest - 1)
    message = rf"label {highest} of query .*evaluate\.max_label = {highest - 1}"
    with pytest.raises(UserError, match=message):
        evaluate_queries(join_features(GROUPS, FEATURES), {"m": model}, plan)


def test_the_logged_ranking_is_the_mean_over_its_lists_weighted_by_sessions():
    groups = groups_of(group("b", ["x"], {(): 3}), group("b", ["y", "z"], {(): 1}))
    got = metric_values(evaluate_queries(join_features(groups, FEATURES), {}, PLAN), LOGGING)
    label = {r["doc_id"]: r["label"] for r in FEATURES.to_pylist() if r["query_id"] == "b"}
    first = [label[d] for d in ("x", "z", "y")]  # not shown: in the order of the features
    second = [label[d] for d in ("y", "z", "x")]
    want = [oracle.ndcg([0, -1, -2], y, 3) for y in (first, second)]
    assert got["ndcg_at_3"].value == pytest.approx((3 * want[0] + want[1]) / 4)


@pytest.mark.parametrize("subject", ["m", LOGGING])
def test_the_pair_loss_equals_a_loop_over_sessions(subject):
    pairs = 11 * 3 + 4 * 1 + 7 * 3  # sessions of (x y z), of a's (x y), of (z x y), times pairs
    total = 0.0
    for query, sessions in sessions_of(GROUPS).items():
        for session in sessions:
            shown = {d: -k for k, d in enumerate(session[0])}
            scores = scores_of(query) if subject == "m" else shown
            total += pair_loss_sum([session], EXAMINATION.theta, EXAMINATION.psi, scores)
    assert values(subject)["pair_loss"].value * pairs == pytest.approx(total, rel=1e-5)


def test_average_new_positions_are_weighted_by_sessions():
    totals = evaluate_queries(join_features(GROUPS, FEATURES), {"m": model}, PLAN).estimates()
    ranks_at = {}
    for query, sessions in sessions_of(GROUPS).items():
        for documents, _ in sessions:
            ranks = rank_by([scores_of(query)[d] for d in documents])
            for k, rank in enumerate(ranks, start=1):
                ranks_at.setdefault(k, []).append(rank)
    for k, ranks in ranks_at.items():
        got = totals[Key("m", None, None, k, "position_after")]
        assert got.value == pytest.approx(np.mean(ranks))
        assert totals[Key(LOGGING, None, None, k, "position_after")].value == k


def test_partitions_add_up_to_the_whole():
    whole = evaluate_queries(join_features(GROUPS, FEATURES), {"m": model}, PLAN)
    names = np.array(GROUPS["query_id"].to_pylist())
    parts = [GROUPS.filter(pa.array(mask)) for mask in (names == "b", names != "b")]
    one, two = (_totals(part, {"m": model}) for part in parts)
    added = one + two
    assert added.sums.keys() == whole.sums.keys()
    for key, sums in whole.sums.items():
        np.testing.assert_allclose(added.sums[key], sums, rtol=1e-9, err_msg=str(key))


def test_a_segment_has_the_totals_of_its_groups_alone():
    rows = GROUPS.to_pylist()
    split = groups_of(*(r | {"segment": s} for r in rows[:3] for s in ("phone", "desk")))
    totals = evaluate_queries(join_features(split, FEATURES), {"m": model}, PLAN)
    alone = evaluate_queries(join_features(groups_of(*rows[:3]), FEATURES), {"m": model}, PLAN)
    for key, sums in alone.sums.items():
        np.testing.assert_allclose(totals.sums[key._replace(segment="desk")], sums)


def test_documents_without_features_rank_last_and_lists_end_at_the_depth_of_theta():
    deep = [*"vwxyz"]
    groups = groups_of(group("b", deep, {(1, 5): 2}))
    got = metric_values(evaluate_queries(join_features(groups, FEATURES), {"m": model}, PLAN), "m")
    ranks = rank_by([-math.inf, -math.inf, scores_of("b")["x"], scores_of("b")["y"]])
    want = ranks[0] / THETA[0]  # theta has no position 5
    assert got["ips_mean_relevant_rank"].value == pytest.approx(want)


def test_the_table_has_its_schema_and_one_row_per_key():
    totals = _totals(GROUPS, {"m": model, "n": lambda x: -model(x)})
    table = metrics_table(totals)
    assert table.schema == metrics_schema
    keys = list(zip(*(table[n].to_pylist() for n in Key._fields), strict=True))
    assert len(set(keys)) == len(keys) > 0
    compared = [r for r in table.to_pylist() if r["against"] == LOGGING]
    assert {r["subject"] for r in compared} == {"m", "n"}
    assert all(r["p_value"] is not None for r in compared)


def test_every_computed_metric_is_listed_once_and_every_listed_one_is_computed():
    keys = evaluate_queries(join_features(GROUPS, FEATURES), {"m": model}, PLAN).sums
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    assert {key.name.partition("_at_")[0] for key in keys} == set(names)


@pytest.mark.parametrize(
    ("name", "lower"),
    [("mean_relevant_rank", True), ("snips_mean_relevant_rank", True), ("pair_loss", True),
     ("ndcg_at_10", False), ("ips_precision_at_3", False)],
)  # fmt: skip
def test_a_metric_has_one_direction_with_or_without_a_cut(name, lower):
    assert is_lower_better(name) == lower


@pytest.mark.parametrize("browsing", ["independent", "row_skipping"])
def test_click_metrics_agree_with_the_true_metrics_within_their_intervals(browsing):
    """In 10 worlds at least 8 of the 95% intervals contain the truth, and the mean is near it."""
    inside, errors = {"dcg": 0, "mean_relevant_rank": 0}, {"dcg": [], "mean_relevant_rank": []}
    corpus = synthetic_corpus(3, 150, 10, 8)
    for seed in range(10):
        log = click_log(corpus, 150, 8, 60, model=browsing, seed=seed)
        plan = evaluation_plan(log.truth, max_label=corpus.max_label)
        groups, features = groups_table(corpus, log), features_table(corpus, 150)
        window = join_features(groups, features)
        got = metric_values(evaluate_queries(window, {"m": lambda x: x @ WEIGHTS}, plan), "m")
        relevant = (2.0 ** corpus.labels[log.documents] - 1) / (2.0**corpus.max_label - 1)
        scores = corpus.features[log.documents] @ WEIGHTS
        rank = np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1) + 1
        truth = {
            "dcg": (relevant / np.log2(1 + rank)).sum(axis=1).mean(),
            "mean_relevant_rank": (relevant * rank).sum(axis=1).mean(),
        }
        for name, value in truth.items():
            estimate = got[f"ips_{name}"]
            inside[name] += estimate.lower <= value <= estimate.upper
            errors[name].append((estimate.value - value) / estimate.standard_error)
    assert min(inside.values()) >= 8
    assert all(abs(np.mean(e)) < 2 / math.sqrt(10) for e in errors.values())
    blind = evaluation_plan(independent_propensities(np.ones(8)))
    naive = metric_values(evaluate_queries(window, {"m": lambda x: x @ WEIGHTS}, blind), "m")
    assert naive["ips_dcg"].upper < truth["dcg"]  # without correction, clicks are biased


WEIGHTS = np.array([1.0, -0.5, 0.3, 0.0, 0.2, -0.1, 0.0, 0.0], np.float32)


def test_golden_metrics_of_the_logged_ranking_are_not_cut_at_the_depth_of_theta():
    queries = join_features(GROUPS, FEATURES)
    deep, shallow = (
        metric_values(evaluate_queries(queries, {"m": model}, plan), LOGGING)
        for plan in (PLAN, evaluation_plan(EXAMINATION.cut(1), precision_cuts=[1], max_label=2))
    )
    sources = {metric.name: metric.source for metric in METRICS}
    golden = [name for name in deep if sources[name.partition("_at_")[0]] == "golden"]
    assert [shallow[name] for name in golden] == [deep[name] for name in golden]
    assert shallow["ips_dcg"] != deep["ips_dcg"]
