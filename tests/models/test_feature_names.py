"""The features of a table are matched with a model's by name."""

import lightgbm as lgb
import numpy as np
import pytest

from ulr.errors import InvalidData, UserError
from ulr.models.booster import (
    check_features,
    feature_difference,
    load_booster,
    load_scorer,
    model_feature_names,
)
from ulr.models.check import read_checked

NAMES = ["price", "stock", "age"]
X = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)


def model(names="auto", width=3):
    settings = {"objective": "regression", "verbose": -1, "num_leaves": 3, "num_threads": 1}
    data = lgb.Dataset(X[:, :width], X[:, 0].copy(), feature_name=names)
    return lgb.train(settings, data, 2).model_to_string()


def test_features_in_another_order_or_among_others_give_the_same_scores():
    text = model(NAMES)
    want = load_scorer(text, "m", NAMES)(X)
    for names in (NAMES[::-1], ["new", "age", "price", "old", "stock"]):
        others = {"new": X[:, 1] * 7, "old": X[:, 0] - 3}
        columns = others | dict(zip(NAMES, X.T, strict=True))
        table = np.stack([columns[name] for name in names], axis=1)
        np.testing.assert_array_equal(load_scorer(text, "m", names)(table), want)


def test_without_names_of_both_the_number_of_features_decides():
    np.testing.assert_array_equal(load_scorer(model(), "m", NAMES)(X), load_scorer(model(), "m")(X))
    load_scorer(model(NAMES), "m")(X)
    with pytest.raises(UserError, match="model m was trained on 3 features and these rows have 2"):
        load_scorer(model(), "m", NAMES[:2])(X[:, :2])


def test_names_that_are_not_those_of_the_rows_are_an_error():
    with pytest.raises(InvalidData, match="3 features, and the metadata of the table 4 names"):
        load_scorer(model(NAMES), "m", [*NAMES, "more"])(X)


def test_a_feature_that_a_table_does_not_have_is_named_with_the_nearest():
    check_features(NAMES[::-1], "t", {"same": model(NAMES), "without names": model()})
    check_features([], "t", {"same": model(NAMES)})
    message = r"t: no feature stock, which model m .* did you mean stocks\? it has price, stocks"
    with pytest.raises(UserError, match=message):
        check_features(["price", "stocks", "age"], "t", {"m": model(NAMES)})


def test_two_models_are_compared_by_number_and_names_of_their_features():
    assert feature_difference(model(NAMES), model(NAMES)) == ""
    assert feature_difference(model(), model(NAMES)) == ""
    difference = feature_difference(model(NAMES), model(NAMES[::-1]))
    assert difference == "feature 1 is age instead of price"
    assert "it has 2 features, the other 3" in feature_difference(model(), model(width=2))
    assert model_feature_names(load_booster(model())) == []


def test_a_model_whose_feature_names_contain_an_equals_sign_is_valid():
    text = read_checked(model(["color=red", "color=blue", "age"]).encode(), "m")
    assert model_feature_names(load_booster(text)) == ["color=red", "color=blue", "age"]
