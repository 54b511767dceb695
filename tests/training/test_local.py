"""The trainer against LightGBM's own lambdarank, against sessions one by one, and on its own."""

import itertools

import lightgbm as lgb
import numba
import numpy as np
import pyarrow as pa
import pytest

from tests.support import oracle_pairs as oracle
from tests.support.pair_samples import histograms, independent_propensities, one_list_per_query
from ulr.errors import UserError
from ulr.kernels.lambdas import lambda_gradients
from ulr.kernels.layout import concat_pairs
from ulr.pairs.weighting import weigh_histograms
from ulr.pairs.weights import weight_table
from ulr.simulate.browsing import Independent, power_curve
from ulr.training.data import RankingData, split_queries
from ulr.training.local import split_parameters, train_ranker
from ulr.training.objective import (
    GRID,
    Biases,
    LambdaOptions,
    PairObjective,
    first_biases,
    grid_for,
    make_nonnegative,
)

DOCS, WIDTH = 8, 5
SETTINGS = {
    "num_leaves": 8, "learning_rate": 0.1, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.5,
    "num_threads": 1, "deterministic": True, "seed": 1,
}  # fmt: skip


def clicked_lists(rng, queries, sessions=1):
    """Features, relevance that one of them explains, and clicks under theta = 1 / k."""
    x = rng.normal(size=(queries, DOCS, WIDTH)).astype(np.float32)
    chance = 1 / (1 + np.exp(1 - 1.5 * x[:, :, 0]))
    relevant = rng.random((queries, sessions, DOCS)) < chance[:, None, :]
    flat = relevant.reshape(-1, DOCS)
    seen = Independent(power_curve(DOCS, 1.0)).examine(rng, flat)
    return x, (flat & seen).reshape(queries, sessions, DOCS)


def pairs_of(clicks, method, session="none"):
    """One group per query from clicks (queries x sessions x documents)."""
    groups = []
    for sessions in clicks:
        found, counts = np.unique(sessions, axis=0, return_counts=True)
        groups.append((DOCS, {tuple(p): int(n) for p, n in zip(found, counts, strict=True)}))
    given = independent_propensities(power_curve(DOCS, 1.0))
    table = weight_table(method, given)[None]
    made, _ = weigh_histograms(
        histograms(groups), np.zeros(len(groups)), table, table, session=session
    )
    return one_list_per_query(DOCS, made)


def data_of(x, pairs, labels=None):
    rows = pairs.rows
    labels = np.full(rows, -1, np.int32) if labels is None else labels
    names = pa.array([str(q) for q in range(pairs.queries)])
    return RankingData(names, x.reshape(rows, -1), labels, pairs)


def splits(booster):
    """Features and thresholds of every tree, and its leaf values apart."""
    shape, values = [], []

    def walk(node):
        if "split_feature" not in node:
            values.append(node.get("leaf_value"))
            return
        shape.append((node["split_feature"], node["threshold"]))
        walk(node["left_child"])
        walk(node["right_child"])

    for tree in booster.dump_model()["tree_info"]:
        walk(tree["tree_structure"])
    return shape, values


def test_one_session_per_query_and_naive_grow_the_trees_of_lightgbms_lambdarank():
    x, clicks = clicked_lists(np.random.default_rng(1), 300)
    data = data_of(x, pairs_of(clicks, "naive", session="idcg"))
    # Leaves that no count of rows would refuse: ours count Hessians only.
    settings = {**SETTINGS, "min_sum_hessian_in_leaf": 2.0}
    ours = train_ranker(data, num_iterations=8, lightgbm=settings)
    theirs = lgb.train(
        {**settings, "objective": "lambdarank", "lambdarank_norm": False, "verbose": -1},
        lgb.Dataset(data.features, clicks.reshape(-1), group=np.full(300, DOCS)),
        8,
    )
    (shape, values), (their_shape, their_values) = splits(ours.booster), splits(theirs)
    assert shape == their_shape
    np.testing.assert_allclose(values, their_values, rtol=2e-3, atol=2e-5)


def test_lambdarank_norm_is_lightgbms_too():
    x, clicks = clicked_lists(np.random.default_rng(2), 300)
    data = data_of(x, pairs_of(clicks, "naive", session="idcg"))
    settings = {**SETTINGS, "lambdarank_norm": True, "lambdarank_truncation_level": 4}
    # LightGBM divides by the ideal of the truncated list: lists with more clicks differ.
    few = clicks.reshape(300, DOCS).sum(axis=1) <= 4
    data = split_queries(data, few)
    ours = train_ranker(data, num_iterations=5, lightgbm=settings)
    theirs = lgb.train(
        {**settings, "objective": "lambdarank", "verbose": -1},
        lgb.Dataset(data.features, clicks[few].reshape(-1), group=np.full(few.sum(), DOCS)),
        5,
    )
    (shape, values), (their_shape, their_values) = splits(ours.booster), splits(theirs)
    assert shape == their_shape
    np.testing.assert_allclose(values, their_values, rtol=2e-3, atol=2e-5)


@pytest.mark.parametrize("method", ["naive", "robust", "joint"])
def test_the_aggregated_gradient_is_the_sum_over_sessions(method):
    rng = np.random.default_rng(3)
    _, clicks = clicked_lists(rng, 5, sessions=40)
    pairs = pairs_of(clicks, method)
    scores = rng.normal(size=pairs.rows)
    grad, hess = np.zeros(pairs.rows), np.zeros(pairs.rows)
    lambda_gradients(scores, pairs, grad, hess)
    theta = power_curve(DOCS, 1.0)
    psi = independent_propensities(theta).psi
    places = list(itertools.combinations(range(DOCS), 2))
    for q, sessions in enumerate(clicks):
        rows = slice(q * DOCS, (q + 1) * DOCS)
        want, weights = np.zeros(DOCS), np.zeros((DOCS, DOCS))
        for bits in sessions:
            u = oracle.session_weights(bits, theta, psi, method)
            listed = [(i, j, u[i][j], u[j][i]) for i, j in places]
            want += oracle.lambda_gradient(scores[rows].tolist(), listed)[0]
            weights += u
        np.testing.assert_allclose(grad[rows], want, rtol=1e-5, atol=1e-5)
        # The Hessian takes max(u, 0) of the sum, not of each session: less is thrown away.
        summed = [(i, j, weights[i][j], weights[j][i]) for i, j in places]
        curve = oracle.lambda_gradient(scores[rows].tolist(), summed)[1]
        np.testing.assert_allclose(hess[rows], curve, rtol=1e-5, atol=1e-5)


def test_aggregated_data_and_expanded_sessions_grow_the_same_model():
    x, clicks = clicked_lists(np.random.default_rng(4), 60, sessions=12)
    short = data_of(x, pairs_of(clicks, "naive"))
    apart = concat_pairs([pairs_of(clicks[:, [s]], "naive") for s in range(12)])
    long = data_of(np.tile(x, (12, 1, 1)), apart)
    # The same bins for both, and leaves too large for two splits to part the same documents.
    bins = {**SETTINGS, "min_data_in_bin": 1, "max_bin": 1023, "min_sum_hessian_in_leaf": 10}
    few, many = (train_ranker(d, num_iterations=10, lightgbm=bins) for d in (short, long))
    assert splits(few.booster)[0] == splits(many.booster)[0]
    np.testing.assert_allclose(few.predict(short.features), many.predict(short.features), atol=1e-4)


def test_neither_threads_nor_the_order_of_queries_change_the_model():
    x, clicks = clicked_lists(np.random.default_rng(5), 120, sessions=6)
    models = []
    for order, threads in ((slice(None), 1), (slice(None, None, -1), 1), (slice(None), 2)):
        data = data_of(x[order], pairs_of(clicks[order], "joint"))
        ranker = train_ranker(
            data, num_iterations=10, lightgbm={**SETTINGS, "num_threads": threads}
        )
        models.append(ranker.predict(x.reshape(-1, WIDTH)))
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    np.testing.assert_array_equal(models[1], models[0])
    np.testing.assert_array_equal(models[2], models[0])


def test_repair_leaves_no_negative_weight_and_keeps_every_difference():
    _, clicks = clicked_lists(np.random.default_rng(12), 40, sessions=10)
    plain = pairs_of(clicks, "joint")
    fixed = make_nonnegative(plain)
    assert min(plain.u_ij.min(), plain.u_ji.min()) < 0
    assert min(fixed.u_ij.min(), fixed.u_ji.min()) >= 0
    np.testing.assert_allclose(fixed.u_ij - fixed.u_ji, plain.u_ij - plain.u_ji, atol=1e-3)
    sound = np.minimum(plain.u_ij, plain.u_ji) >= 0
    np.testing.assert_array_equal(fixed.u_ij[sound], plain.u_ij[sound])


def test_gradients_handed_to_lightgbm_are_on_the_grid():
    _, clicks = clicked_lists(np.random.default_rng(6), 30, sessions=6)
    objective = PairObjective(pairs_of(clicks, "joint"), LambdaOptions())
    for values in objective.fill(np.random.default_rng(6).normal(size=30 * DOCS)):
        steps = values.astype(float) / GRID
        assert values.dtype == np.float32
        assert (steps == np.rint(steps)).all()


def test_the_grid_is_as_fine_as_exact_sums_allow():
    assert grid_for(2.0**32) == GRID
    for bound in (1.5 * 2.0**33, 2.0**50):
        assert bound / 2 < grid_for(bound) * 2.0**52 <= bound < grid_for(bound) * 2.0**53


def test_joint_ranks_better_than_naive_where_clicks_are_biased():
    rng = np.random.default_rng(7)
    x, clicks = clicked_lists(rng, 800, sessions=16)
    fresh = rng.normal(size=(4000, WIDTH)).astype(np.float32)
    # The production order is by feature 1, which says nothing: naive learns it all the same.
    order = np.argsort(-x[:, :, 1], axis=1)
    x = np.take_along_axis(x, order[:, :, None], axis=1)
    relevant = rng.random((800, 16, DOCS)) < (1 / (1 + np.exp(1 - 1.5 * x[:, None, :, 0])))
    seen = Independent(power_curve(DOCS, 1.0)).examine(rng, relevant.reshape(-1, DOCS))
    clicks = relevant & seen.reshape(relevant.shape)
    quality = {}
    for method in ("naive", "joint"):
        data = data_of(x, pairs_of(clicks, method))
        ranker = train_ranker(data, num_iterations=20, lightgbm={**SETTINGS, "num_leaves": 6})
        quality[method] = np.corrcoef(ranker.predict(fresh), fresh[:, 0])[0, 1]
    assert quality["joint"] > 0.9 > quality["naive"]


@pytest.mark.parametrize("early_stopping_metric", ["pair_loss", "ndcg_at_3"])
def test_early_stopping_keeps_the_best_round(early_stopping_metric):
    rng = np.random.default_rng(8)
    x, clicks = clicked_lists(rng, 120, sessions=4)
    labels = rng.integers(0, 3, size=120 * DOCS).astype(np.int32)
    whole = data_of(x, pairs_of(clicks, "joint"), labels)
    chosen = np.arange(120) < 60
    train, check = split_queries(whole, chosen), split_queries(whole, ~chosen)
    told = []
    ranker = train_ranker(
        train,
        num_iterations=60,
        lightgbm={**SETTINGS, "learning_rate": 0.5},
        validation=check,
        early_stopping_metric=early_stopping_metric,
        early_stopping_round=5,
        after_round=lambda number, value: told.append((number, value)),
    )
    best = min if early_stopping_metric == "pair_loss" else max
    assert ranker.best_iteration == 1 + ranker.history.index(best(ranker.history))
    assert len(ranker.history) == ranker.best_iteration + 5
    assert told == list(enumerate(ranker.history, start=1))
    trees = lgb.Booster(model_str=ranker.model_text()).num_trees()
    assert trees == ranker.best_iteration


def test_biases_follow_the_losses_and_keep_what_has_none():
    losses = np.array([[8.0, 2.0, 0.0], [4.0, 1.0, 0.25]])
    start = Biases(np.ones(3), np.ones(3), p=1)
    new = start.updated(losses)
    np.testing.assert_allclose(new.t_plus, [1, (2 / 8) ** 0.5, 1])
    np.testing.assert_allclose(new.t_minus, [1, (1 / 4) ** 0.5, (0.25 / 4) ** 0.5])
    plain = Biases(np.ones(3), np.ones(3), p=0).updated(losses)
    np.testing.assert_allclose(plain.t_minus, [1, 1 / 4, 1 / 16])


def test_given_theta_stays_and_only_the_unclick_bias_is_learned():
    x, clicks = clicked_lists(np.random.default_rng(9), 200, sessions=8)
    data = data_of(x, pairs_of(clicks, "unbiased-lambdamart"))
    theta = power_curve(DOCS, 1.0)
    ranker = train_ranker(
        data, num_iterations=5, lightgbm=SETTINGS, biases=first_biases(DOCS, 2, theta)
    )
    np.testing.assert_array_equal(ranker.biases.t_plus, theta)
    assert (ranker.biases.t_minus != 1).any()


@pytest.mark.parametrize("p", [0, 1, 2])
def test_learned_click_bias_falls_with_position(p):
    x, clicks = clicked_lists(np.random.default_rng(10), 400, sessions=16)
    data = data_of(x, pairs_of(clicks, "unbiased-lambdamart"))
    ranker = train_ranker(data, num_iterations=5, lightgbm=SETTINGS, biases=first_biases(DOCS, p))
    assert ranker.biases.t_plus[0] == 1
    assert ranker.biases.t_plus[5] < ranker.biases.t_plus[1] < 1


def test_settings_that_training_owns_are_refused():
    with pytest.raises(UserError, match=r"lightgbm\.objective is set by training"):
        split_parameters({"objective": "lambdarank"}, "lambdarank")
    x, clicks = clicked_lists(np.random.default_rng(11), 20)
    data = data_of(x, pairs_of(clicks, "naive"))
    with pytest.raises(UserError, match="no validation document has a positive label"):
        train_ranker(
            data,
            num_iterations=1,
            lightgbm=SETTINGS,
            validation=data,
            early_stopping_round=1,
            early_stopping_metric="ndcg_at_3",
        )
    with pytest.raises(UserError, match="expected pair_loss or ndcg_at_K"):
        train_ranker(
            data,
            num_iterations=1,
            lightgbm=SETTINGS,
            validation=data,
            early_stopping_round=1,
            early_stopping_metric="auc",
        )
