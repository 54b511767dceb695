"""A linear model as LightGBM text: scores, missing values, and reading it back."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest

from ulr.models.booster import feature_difference, load_booster, load_scorer
from ulr.models.check import read_checked
from ulr.models.linear import linear_model_text, linear_weights

WEIGHTS = np.array([0.25, 0.0, -1 / 3, 1e-12, 7e8])


@pytest.fixture
def features():
    return np.random.default_rng(1).normal(size=(200, WEIGHTS.size)).astype(np.float32)


def test_scores_are_the_linear_function_also_after_save_and_load(features):
    text = read_checked(linear_model_text(WEIGHTS, 0.1).encode(), "linear")
    want = features.astype(float) @ WEIGHTS + 0.1
    again = load_booster(text).model_to_string()
    for model in (text, again):
        np.testing.assert_allclose(load_scorer(model, "linear")(features), want, rtol=1e-14)
        weights, constant = linear_weights(model)
        np.testing.assert_array_equal(weights, WEIGHTS)
        assert constant == 0.1


def test_a_row_with_a_missing_value_gets_0_unless_the_feature_has_no_weight(features):
    features[0, 1] = features[1, 2] = np.nan
    scores = load_scorer(linear_model_text(WEIGHTS, 0.1), "linear")(features)
    used = WEIGHTS != 0
    assert scores[0] == pytest.approx(features[0, used].astype(float) @ WEIGHTS[used] + 0.1)
    assert scores[1] == 0


def test_names_of_features_are_those_of_the_model():
    named = linear_model_text(WEIGHTS, 0.0, ["a b", "c", "d", "e", "f"])
    assert load_booster(named).feature_name() == ["a_b", "c", "d", "e", "f"]
    plain = linear_model_text(WEIGHTS, 0.0)
    assert feature_difference(plain, linear_model_text(WEIGHTS[1:], 0.0)) != ""


def test_other_models_have_no_linear_weights(features):
    parameters = {"objective": "regression", "num_leaves": 2, "verbose": -1}
    data = lgb.Dataset(features, features[:, 0] ** 2)
    assert linear_weights(lgb.train(parameters, data, 1).model_to_string()) is None
    text = linear_model_text(WEIGHTS, 0.1)
    first, _, rest = text.partition("leaf_coeff=0.25")
    assert linear_weights(f"{first}leaf_coeff=0.5{rest}") is None
