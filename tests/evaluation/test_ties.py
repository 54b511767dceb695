"""Equal scores are ranked by a hash, so that a constant model does not look like the ranking."""

import numpy as np
import pyarrow as pa
import pytest

from tests.support.evaluation_plans import evaluation_plan
from tests.support.pair_inputs import EXAMINATION, THETA, group, groups_of
from ulr.evaluation.metrics import LOGGING
from ulr.evaluation.shown import load_shown
from ulr.evaluation.tasks import evaluate_queries
from ulr.evaluation.totals import metric_values
from ulr.features.join import join_features
from ulr.features.window import load_window
from ulr.warehouse.schema import features_schema

QUERIES = 400
NAMES = ["a", "b", "c", "d"]
PLAN = evaluation_plan(EXAMINATION, max_label=3)


def window_of(order):
    """Labels fall with the displayed position, and features come in the same order."""
    groups = [group(f"q{n}", order, {(1,): 8, (2,): 1}) for n in range(QUERIES)]
    rows = [
        {"query_id": f"q{n}", "doc_id": d, "features": [0.0], "label": 3 - k}
        for n in range(QUERIES)
        for k, d in enumerate(order)
    ]
    features = pa.Table.from_pylist(rows, schema=features_schema)
    return join_features(groups_of(*groups), features)


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1]])
def test_a_constant_model_is_as_good_as_a_random_order_whatever_the_table_and_the_page_say(order):
    totals = evaluate_queries(window_of(order), {"m": lambda x: np.zeros(len(x))}, PLAN)
    constant, logged = metric_values(totals, "m"), metric_values(totals, LOGGING)
    discounts = 1 / np.log2(2 + np.arange(4))
    random_dcg = discounts.mean() * (8 / THETA[0] + 1 / THETA[1]) / 9
    assert constant["ips_dcg"].value == pytest.approx(random_dcg, rel=0.05)
    assert constant["ips_dcg"].upper < logged["ips_dcg"].value
    gains = 2.0 ** np.array([3, 2, 1, 0]) - 1
    random_ndcg = gains.mean() * discounts.sum() / (gains @ discounts)
    assert constant["ndcg_at_10"].value == pytest.approx(random_ndcg, rel=0.03)
    assert logged["ndcg_at_10"].value == pytest.approx(1.0)


def test_documents_that_a_list_did_not_show_follow_it_in_the_order_of_a_hash():
    groups = groups_of(*(group(f"q{n}", ["a"], {(1,): 1}) for n in range(QUERIES)))
    names = [(f"q{n}", d, label) for n in range(QUERIES) for d, label in (("b", 3), ("a", 0))]
    rows = [{"query_id": q, "doc_id": d, "features": [0.0], "label": y} for q, d, y in names]
    rows += [{"query_id": f"q{n}", "doc_id": "c", "features": [0.0], "label": 0}
             for n in range(QUERIES)]  # fmt: skip
    features = pa.Table.from_pylist(rows, schema=features_schema)
    got = metric_values(evaluate_queries(join_features(groups, features), {}, PLAN), LOGGING)
    # The relevant document is second or third with equal chances.
    assert got["mean_relevant_rank"].value == pytest.approx(2.5, abs=0.1)


def test_the_order_of_equal_scores_is_that_of_the_documents_and_not_of_the_list():
    ranks = {}
    for order in (NAMES, NAMES[::-1]):
        shown = load_shown(load_window(window_of(order), 4))
        documents = [
            (shown.window.query_ids[int(q)].as_py(), shown.window.names[int(r)].as_py())
            for q, r in zip(shown.query, shown.window.row_of, strict=True)
        ]
        rank = shown.ranks(np.zeros(len(documents)))
        ranks[order[0]] = dict(zip(documents, rank.tolist(), strict=True))
    assert ranks["a"] == ranks["d"]
