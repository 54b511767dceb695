"""What the values of a features row are: kept by the table, by the model, and held together."""

import lightgbm as lgb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ulr.errors import UserError
from ulr.features.files import (
    feature_names,
    find_features,
    name_difference,
    read_features,
    with_names,
)
from ulr.models.booster import check_order, load_booster, model_names, other_features
from ulr.training.bins import make_reference
from ulr.warehouse.schema import features_schema

NAMES = ["price", "stock", "age"]
X = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)


def table(names=()):
    rows = [{"query_id": "q", "doc_id": "d", "features": [1.0, 2.0, 3.0], "label": None}]
    plain = pa.Table.from_pylist(rows, schema=features_schema)
    return with_names(plain, names) if names else plain


def written(folder, name, names=()):
    path = str(folder / name)
    pq.write_table(table(names), path)
    return path


def model(names="auto", width=3):
    settings = {"objective": "regression", "verbose": -1, "num_leaves": 3, "num_threads": 1}
    data = lgb.Dataset(X[:, :width], X[:, 0].copy(), feature_name=names)
    return lgb.train(settings, data, 2).model_to_string()


def test_a_table_written_with_arrow_or_without_names(tmp_path):
    assert feature_names("", written(tmp_path, "a.parquet", NAMES)) == NAMES
    assert feature_names("", written(tmp_path, "b.parquet")) == []
    (rows,) = read_features("", written(tmp_path, "a.parquet", NAMES))
    assert rows.schema.equals(features_schema, check_metadata=True)


def test_a_table_written_by_spark_keeps_its_columns_metadata(spark, tmp_path):
    frame = spark.createDataFrame([("q", "d", [1.0, 2.0, 3.0])], "query_id string, doc_id string, "
                                  "features array<float>")  # fmt: skip
    frame = frame.withMetadata("features", {"names": NAMES})
    frame.coalesce(1).write.parquet(str(tmp_path / "features"))
    (path,) = (tmp_path / "features").glob("*.parquet")
    assert feature_names("", str(path)) == NAMES


def test_names_that_a_model_cannot_keep_are_changed_and_equal_ones_refused(tmp_path):
    odd = ["in stock", "a:b", "{x}"]
    assert feature_names("", written(tmp_path, "a.parquet", odd)) == ["in_stock", "a_b", "_x_"]
    with pytest.raises(UserError, match="two features are named a_b"):
        feature_names("", written(tmp_path, "b.parquet", ["a b", "a:b", "c"]))


@pytest.mark.parametrize(
    ("wanted", "given", "words"),
    [
        (NAMES, NAMES, ""),
        (NAMES, [], ""),
        ([], NAMES, ""),
        (NAMES, ["price", "age", "stock"], "feature 2 is age where it is stock"),
        (NAMES, ["price"], "1 features where there are 3"),
    ],
)
def test_the_first_difference_is_told_and_silence_is_none(wanted, given, words):
    assert name_difference(wanted, given) == words


def test_files_of_one_table_in_different_orders_are_refused(tmp_path):
    path = written(tmp_path, "b.parquet", NAMES[::-1])
    with pytest.raises(UserError, match="feature 1 is age where it is price in another file"):
        next(read_features("", path, NAMES))


def test_a_model_is_not_given_its_features_in_another_order(tmp_path):
    features = find_features(written(tmp_path, "a.parquet", NAMES))
    check_order(features, {"same": model(NAMES), "without names": model()})
    with pytest.raises(UserError, match="feature 1 is price where it is age in model other"):
        check_order(features, {"other": model(NAMES[::-1])})


def test_two_models_are_told_apart_by_number_and_by_name():
    assert other_features(model(NAMES), model(NAMES)) == ""
    assert other_features(model(), model(NAMES)) == ""
    assert other_features(model(NAMES), model(NAMES[::-1])) == "feature 1 is age where it is price"
    assert "it has 2 features, the other 3" in other_features(model(), model(width=2))
    assert model_names(load_booster(model())) == []


def test_as_many_names_as_features():
    with pytest.raises(UserError, match="names 2 features and its rows have 3"):
        make_reference(X, {}, ["a", "b"])
