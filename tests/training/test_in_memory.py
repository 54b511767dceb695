"""Training in one process, compared with LightGBM's lambdarank and with expanded sessions."""

from __future__ import annotations

import lightgbm as lgb
import numba
import numpy as np
import pytest

from tests.support.click_lists import DOCS, WIDTH, clicked_lists, data_of, pairs_of
from tests.support.in_memory import train_ranker
from ulr.errors import UserError
from ulr.kernels.layout import concat_pairs
from ulr.models.thresholds import float32_thresholds
from ulr.simulate.browsing import Independent, power_curve
from ulr.training.data import split_queries
from ulr.training.plan import UNBIASED_LAMBDAMART, TrainPlan
from ulr.training.stopping import MIN_ITERATIONS

SETTINGS = {
    "num_leaves": 8, "learning_rate": 0.1, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.5,
    "num_threads": 1, "deterministic": True, "seed": 1,
}  # fmt: skip


def splits(booster):
    """Return (feature, threshold) of every split, and every leaf value."""
    shape, values = [], []

    def walk(node):
        if "split_feature" not in node:
            values.append(node.get("leaf_value"))
            return
        shape.append((node["split_feature"], *float32_thresholds(np.array([node["threshold"]]))))
        walk(node["left_child"])
        walk(node["right_child"])

    for tree in booster.dump_model()["tree_info"]:
        walk(tree["tree_structure"])
    return shape, values


def test_naive_pairs_of_one_session_per_query_give_the_trees_of_lightgbms_lambdarank():
    x, clicks = clicked_lists(np.random.default_rng(1), 300)
    data = data_of(x, pairs_of(clicks, "naive", session="idcg"))
    # Leaves are bounded by Hessians only: LightGBM also counts rows.
    settings = {**SETTINGS, "min_sum_hessian_in_leaf": 2.0}
    ours = train_ranker(data, TrainPlan("naive", 8, settings))
    reference = lgb.train(
        {**settings, "objective": "lambdarank", "lambdarank_norm": False, "verbose": -1},
        lgb.Dataset(data.features, clicks.reshape(-1), group=np.full(300, DOCS)),
        8,
    )
    (shape, values), (reference_shape, reference_values) = splits(ours.booster), splits(reference)
    assert shape == reference_shape
    np.testing.assert_allclose(values, reference_values, rtol=2e-3, atol=2e-5)


def test_lambdarank_norm_gives_the_trees_of_lightgbms_lambdarank_norm():
    x, clicks = clicked_lists(np.random.default_rng(2), 300)
    data = data_of(x, pairs_of(clicks, "naive", session="idcg"))
    settings = {**SETTINGS, "lambdarank_norm": True, "lambdarank_truncation_level": 4}
    # LightGBM divides by the ideal DCG of the truncated list, so lists with more clicks differ.
    few = clicks.reshape(300, DOCS).sum(axis=1) <= 4
    data = split_queries(data, few)
    ours = train_ranker(data, TrainPlan("naive", 5, settings))
    reference = lgb.train(
        {**settings, "objective": "lambdarank", "verbose": -1},
        lgb.Dataset(data.features, clicks[few].reshape(-1), group=np.full(few.sum(), DOCS)),
        5,
    )
    (shape, values), (reference_shape, reference_values) = splits(ours.booster), splits(reference)
    assert shape == reference_shape
    np.testing.assert_allclose(values, reference_values, rtol=2e-3, atol=2e-5)


def test_aggregated_data_and_expanded_sessions_give_the_same_model():
    x, clicks = clicked_lists(np.random.default_rng(4), 60, sessions=12)
    short = data_of(x, pairs_of(clicks, "naive"))
    apart = concat_pairs([pairs_of(clicks[:, [s]], "naive") for s in range(12)])
    long = data_of(np.tile(x, (12, 1, 1)), apart)
    # The same bins for both, and leaves so large that no two splits separate the same documents.
    bins = {**SETTINGS, "min_data_in_bin": 1, "max_bin": 1023, "min_sum_hessian_in_leaf": 10}
    few, many = (train_ranker(data, TrainPlan("naive", 10, bins)) for data in (short, long))
    assert splits(few.booster)[0] == splits(many.booster)[0]
    np.testing.assert_allclose(few.predict(short.features), many.predict(short.features), atol=1e-4)


def test_the_model_depends_neither_on_threads_nor_on_the_order_of_queries():
    x, clicks = clicked_lists(np.random.default_rng(5), 120, sessions=6)
    models = []
    for order, threads in ((slice(None), 1), (slice(None, None, -1), 1), (slice(None), 2)):
        data = data_of(x[order], pairs_of(clicks[order], "joint"))
        plan = TrainPlan("joint", 10, {**SETTINGS, "num_threads": threads})
        models.append(train_ranker(data, plan).predict(x.reshape(-1, WIDTH)))
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    np.testing.assert_array_equal(models[1], models[0])
    np.testing.assert_array_equal(models[2], models[0])


def test_joint_ranks_better_than_naive_where_clicks_are_biased():
    rng = np.random.default_rng(7)
    x, clicks = clicked_lists(rng, 800, sessions=16)
    fresh = rng.normal(size=(4000, WIDTH)).astype(np.float32)
    # The production ranking is by feature 1, which is irrelevant; naive learns it nevertheless.
    order = np.argsort(-x[:, :, 1], axis=1)
    x = np.take_along_axis(x, order[:, :, None], axis=1)
    relevant = rng.random((800, 16, DOCS)) < (1 / (1 + np.exp(1 - 1.5 * x[:, None, :, 0])))
    seen = Independent(power_curve(DOCS, 1.0)).examine(rng, relevant.reshape(-1, DOCS))
    clicks = relevant & seen.reshape(relevant.shape)
    quality = {}
    for method in ("naive", "joint"):
        data = data_of(x, pairs_of(clicks, method))
        ranker = train_ranker(data, TrainPlan(method, 20, {**SETTINGS, "num_leaves": 6}))
        quality[method] = np.corrcoef(ranker.predict(fresh), fresh[:, 0])[0, 1]
    assert quality["joint"] > 0.9 > quality["naive"]


@pytest.mark.parametrize("early_stopping_metric", ["pair_loss", "ndcg_at_3"])
def test_early_stopping_keeps_the_trees_up_to_the_best_iteration(early_stopping_metric):
    rng = np.random.default_rng(8)
    x, clicks = clicked_lists(rng, 120, sessions=4)
    labels = rng.integers(0, 3, size=120 * DOCS).astype(np.int32)
    whole = data_of(x, pairs_of(clicks, "joint"), labels)
    chosen = np.arange(120) < 60
    train, check = split_queries(whole, chosen), split_queries(whole, ~chosen)
    calls = []
    plan = TrainPlan(
        "joint",
        60,
        {**SETTINGS, "learning_rate": 0.5},
        early_stopping_metric=early_stopping_metric,
        early_stopping_round=5,
    )
    ranker = train_ranker(
        train,
        plan,
        validation=check,
        on_iteration=lambda iteration, value: calls.append((iteration, value)),
    )
    assert MIN_ITERATIONS <= ranker.best_iteration <= len(ranker.history) < 60
    assert calls == list(enumerate(ranker.history, start=1))
    trees = lgb.Booster(model_str=ranker.model_text()).num_trees()
    assert trees == ranker.best_iteration


def test_with_a_fixed_click_bias_only_the_unclick_bias_is_learned():
    x, clicks = clicked_lists(np.random.default_rng(9), 200, sessions=8)
    data = data_of(x, pairs_of(clicks, UNBIASED_LAMBDAMART))
    theta = power_curve(DOCS, 1.0)
    ranker = train_ranker(data, TrainPlan(UNBIASED_LAMBDAMART, 5, SETTINGS, theta=theta))
    np.testing.assert_array_equal(ranker.biases.t_plus, theta)
    assert (ranker.biases.t_minus != 1).any()


@pytest.mark.parametrize("regularization", [0, 1, 2])
def test_learned_click_bias_falls_with_position(regularization):
    x, clicks = clicked_lists(np.random.default_rng(10), 400, sessions=16)
    data = data_of(x, pairs_of(clicks, UNBIASED_LAMBDAMART))
    ranker = train_ranker(
        data, TrainPlan(UNBIASED_LAMBDAMART, 5, SETTINGS, bias_regularization=regularization)
    )
    assert ranker.biases.t_plus[0] == 1
    assert ranker.biases.t_plus[5] < ranker.biases.t_plus[1] < 1


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("ndcg_at_3", "no validation document has a positive label"),
        ("auc", "expected pair_loss or ndcg_at_K"),
    ],
)
def test_an_early_stopping_metric_that_cannot_be_computed_is_rejected(metric, message):
    x, clicks = clicked_lists(np.random.default_rng(11), 20)
    data = data_of(x, pairs_of(clicks, "naive"))
    plan = TrainPlan("naive", 1, SETTINGS, early_stopping_round=1, early_stopping_metric=metric)
    with pytest.raises(UserError, match=message):
        train_ranker(data, plan, validation=data)
