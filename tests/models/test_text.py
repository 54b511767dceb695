from __future__ import annotations

import lightgbm as lgb
import numpy as np

from ulr.models.text import join_models, normalize_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 4)).astype(np.float32)
Y = X[:, 0] - X[:, 1] ** 2


def grown(trees: int, **settings) -> lgb.Booster:
    settings = {"num_leaves": 6, "verbose": -1, "num_threads": 1, **settings}
    return lgb.train(settings, lgb.Dataset(X, Y), trees)


def test_a_normalized_model_gives_the_same_scores_and_has_no_settings_of_workers():
    booster = grown(5)
    text = normalize_model(booster.model_to_string(), 500)
    np.testing.assert_array_equal(lgb.Booster(model_str=text).predict(X), booster.predict(X))
    assert "num_threads" not in text
    assert "tree_learner" not in text
    assert normalize_model(text, 500) == text


def test_rows_of_the_leaves_of_a_normalized_tree_add_up_to_those_of_its_root():
    text = normalize_model(grown(1).model_to_string(), 500)
    fields = dict(line.split("=", 1) for line in text.split("\n") if "=" in line)
    leaves = list(map(int, fields["leaf_count"].split()))
    assert sum(leaves) == int(fields["internal_count"].split()[0])
    assert abs(sum(leaves) - 500) <= len(leaves)


def test_joining_models_keeps_their_order_and_is_associative():
    parts = [normalize_model(grown(n, seed=n).model_to_string(), 500) for n in (2, 3, 1)]
    joined = join_models(join_models(parts[0], parts[1]), parts[2])
    assert joined == join_models(parts[0], join_models(parts[1], parts[2]))
    assert join_models("", parts[0]) == parts[0] == join_models(parts[0], "")
    total = sum(lgb.Booster(model_str=p).predict(X, raw_score=True) for p in parts)
    np.testing.assert_allclose(lgb.Booster(model_str=joined).predict(X), total, rtol=1e-12)
