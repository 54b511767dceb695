"""Relevance from clicks by position and by policy: unbiased in a simulation, and by hand."""

import numpy as np
import pytest

from tests.support.evaluation_plans import evaluation_plan
from tests.support.pair_inputs import THETA, features_of, group, groups_of
from tests.support.pair_samples import independent_propensities
from ulr.evaluation.exposure import estimate_relevance
from ulr.evaluation.shown import load_shown
from ulr.evaluation.tasks import evaluate_queries
from ulr.evaluation.totals import metric_values
from ulr.features.join import join_features
from ulr.features.window import load_window
from ulr.propensity.examination import Examination

DOCUMENTS = ["w", "x", "y", "z"]
RELEVANCE = np.array([0.9, 0.3, 0.6, 0.5])
ALPHA, BETA = 0.7 * THETA, 0.2 * THETA
AFFINE = Examination(THETA, np.outer(THETA, THETA), ALPHA, BETA)
FEATURES = features_of([(q, d) for q in ("q", "r") for d in DOCUMENTS])


def relevance_of(groups, examination, **options):
    shown = load_shown(load_window(join_features(groups, FEATURES), 4))
    own = estimate_relevance(shown, examination, {}, **{"affine": False, "policy": True} | options)
    names = [shown.window.names[int(row)].as_py() for row in shown.window.row_of]
    return list(zip(names, shown.position.tolist(), own.rhat.tolist(), strict=True))


def test_a_document_at_two_positions_by_hand():
    """x has 10 sessions at position 1 and 30 at position 2, where theta is 1 and 0.5."""
    groups = groups_of(
        group("q", ["x", "y"], {(1,): 4, (2,): 2, (): 4}),
        group("q", ["y", "x"], {(2,): 9, (): 21}),
    )
    rate = {"x": (4 + 9) / (10 * 1.0 + 30 * 0.5), "y": 2 / (10 * 0.5 + 30 * 1.0)}
    got = relevance_of(groups, independent_propensities(THETA))
    assert sorted(got) == [
        ("x", 1, pytest.approx(10 * rate["x"])), ("x", 2, pytest.approx(30 * rate["x"])),
        ("y", 1, pytest.approx(30 * rate["y"])), ("y", 2, pytest.approx(10 * rate["y"])),
    ]  # fmt: skip
    by_position = relevance_of(groups, independent_propensities(THETA), policy=False)
    assert ("x", 2, pytest.approx(9 / 0.5)) in by_position


def test_other_queries_and_segments_do_not_share_their_clicks():
    groups = groups_of(
        group("q", ["x"], {(1,): 2, (): 2}),
        group("r", ["x"], {(1,): 1, (): 9}),
        group("q", ["x"], {(1,): 3, (): 1}, segment="s"),
    )
    shown = load_shown(load_window(join_features(groups, FEATURES), 4))
    theta = independent_propensities(THETA)
    segments = {"s": independent_propensities(THETA / 2)}
    own = estimate_relevance(shown, theta, segments, affine=False, policy=True)
    assert sorted(own.rhat.tolist()) == pytest.approx([1.0, 2.0, 3 / 0.5])


def draw_groups(rng, sessions):
    """Clicks of three rankings of the documents, under trust bias."""
    rows = []
    for order, share in (([0, 1, 2, 3], 0.5), ([2, 0, 3, 1], 0.3), ([3, 2, 1, 0], 0.2)):
        count = int(sessions * share)
        clicked = rng.random((count, 4)) < ALPHA * RELEVANCE[order] + BETA
        patterns, counts = np.unique(clicked, axis=0, return_counts=True)
        histogram = {tuple((np.flatnonzero(p) + 1).tolist()): int(n)
                     for p, n in zip(patterns, counts, strict=True)}  # fmt: skip
        rows.append(group("q", [DOCUMENTS[d] for d in order], histogram))
    return groups_of(*rows)


def test_both_weights_are_unbiased_and_those_by_policy_have_less_variance():
    rng, found = np.random.default_rng(1), {"position": [], "policy": []}
    plans = {
        weights: evaluation_plan(AFFINE, correction="affine", weights=weights, max_label=2)
        for weights in found
    }
    for _ in range(150):
        groups = draw_groups(rng, 200)
        for weights, values in found.items():
            window = join_features(groups, FEATURES)
            totals = evaluate_queries(window, {"m": lambda x: x[:, 0]}, plans[weights])
            values.append(metric_values(totals, "m")["ips_dcg"].value)
    # The model ranks the documents of a query as z, y, x, w.
    truth = RELEVANCE[::-1] @ (1 / np.log2(2 + np.arange(4)))
    for values in found.values():
        assert abs(np.mean(values) - truth) < 4 * np.std(values) / np.sqrt(len(values))
    assert np.var(found["policy"]) < 0.9 * np.var(found["position"])


def test_weights_by_policy_are_biased_where_relevance_and_rank_change_together():
    """In one half of the sessions x is relevant and first, in the other half it is neither."""
    groups = groups_of(
        group("q", ["x", "y"], {(1,): 100}), group("q", ["y", "x"], {(1,): 100})
    )  # fmt: skip
    examination = independent_propensities(THETA)
    position, policy = (
        sum(value for _, _, value in relevance_of(groups, examination, policy=policy))
        for policy in (False, True)
    )
    assert position == pytest.approx(200)  # one relevant document in every session
    assert policy == pytest.approx(200 * 2 / (1 + 0.5))
