import lightgbm as lgb
import numpy as np
import pyarrow as pa
import pytest

from ulr.errors import UserError
from ulr.models.booster import arrow_scorer, load_scorer

X = np.random.default_rng(1).normal(size=(100, 3)).astype(np.float32)


@pytest.fixture(scope="module")
def booster():
    settings = {"num_leaves": 4, "verbose": -1, "num_threads": 1}
    return lgb.train(settings, lgb.Dataset(X, X[:, 0]), 3)


def test_matrices_and_arrow_columns_get_the_scores_of_the_booster(booster):
    text, want = booster.model_to_string(), booster.predict(X)
    np.testing.assert_array_equal(load_scorer(text, "m")(X), want)
    column = pa.array(X.tolist(), pa.list_(pa.float32()))
    batches = list(arrow_scorer(text)(iter([column.slice(0, 40), column.slice(40), column[:0]])))
    np.testing.assert_array_equal(pa.concat_arrays(batches), want)


def test_rows_with_another_number_of_features_are_an_error_that_names_the_model(booster):
    text = booster.model_to_string()
    with pytest.raises(UserError, match="model m was trained on 3 features and these rows have 2"):
        load_scorer(text, "m")(X[:, :2])
    narrow = pa.array([[1.0, 2.0, 3.0], [1.0, 2.0]], pa.list_(pa.float32()))
    with pytest.raises(UserError, match="a row has 2 features; the model was trained on 3"):
        list(arrow_scorer(text)(iter([narrow])))
