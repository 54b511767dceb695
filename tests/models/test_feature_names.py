"""Models and feature files are compared by the names of their features."""

import lightgbm as lgb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ulr.errors import UserError
from ulr.features.files import find_features, with_names
from ulr.models.booster import check_order, feature_difference, load_booster, model_feature_names
from ulr.warehouse.schema import features_schema

NAMES = ["price", "stock", "age"]
X = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)


def model(names="auto", width=3):
    settings = {"objective": "regression", "verbose": -1, "num_leaves": 3, "num_threads": 1}
    data = lgb.Dataset(X[:, :width], X[:, 0].copy(), feature_name=names)
    return lgb.train(settings, data, 2).model_to_string()


def test_features_in_another_order_than_the_models_are_refused(tmp_path):
    rows = [{"query_id": "q", "doc_id": "d", "features": [1.0, 2.0, 3.0], "label": None}]
    table = with_names(pa.Table.from_pylist(rows, schema=features_schema), NAMES)
    pq.write_table(table, tmp_path / "a.parquet")
    features = find_features(str(tmp_path / "a.parquet"))
    check_order(features, {"same": model(NAMES), "without names": model()})
    with pytest.raises(UserError, match="feature 1 is price where it is age in model other"):
        check_order(features, {"other": model(NAMES[::-1])})


def test_two_models_are_compared_by_number_and_names_of_their_features():
    assert feature_difference(model(NAMES), model(NAMES)) == ""
    assert feature_difference(model(), model(NAMES)) == ""
    difference = feature_difference(model(NAMES), model(NAMES[::-1]))
    assert difference == "feature 1 is age where it is price"
    assert "it has 2 features, the other 3" in feature_difference(model(), model(width=2))
    assert model_feature_names(load_booster(model())) == []
