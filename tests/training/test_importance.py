"""Gain, splits and SHAP values of the features, on a sample of the published pairs."""

from __future__ import annotations

import json

import lightgbm as lgb
import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from ulr.models.linear import linear_model_text
from ulr.training.importance import (
    MAX_ROWS,
    MIN_ROWS,
    importance_of,
    sample_documents,
)
from ulr.warehouse.schema import pairs_schema

WIDTH = 4
LOCAL = pafs.LocalFileSystem()


def write_pairs(folder, features, *, files=3, group=50, documents=5):
    """Write pair files with so many documents per query and queries per row group."""
    paths = []
    for number, part in enumerate(np.array_split(features, files)):
        queries = [part[n : n + documents] for n in range(0, len(part), documents)]
        rows = [
            {f.name: [] for f in pairs_schema} | {
                "query_id": f"{number}-{n}", "features": query.reshape(-1).tolist(),
                "labels": [None] * len(query),
            }
            for n, query in enumerate(queries)
        ]  # fmt: skip
        path = str(folder / f"part-{number}.parquet")
        table = pa.Table.from_pylist(rows, schema=pairs_schema)
        pq.write_table(table, path, row_group_size=group)
        paths.append(path)
    return paths


def documents(rows, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, WIDTH)).astype(np.float32)


def train(x, y, names=None, **options):
    settings = {"verbose": -1, "num_leaves": 8, "num_threads": 1, "min_data_in_leaf": 5} | options
    data = lgb.Dataset(x, y, feature_name=names or "auto")
    return lgb.train(settings, data, 10).model_to_string()


@pytest.fixture(scope="module")
def model():
    """A model in which the second feature counts most and lowers the score, and the last not."""
    x = documents(3000)
    return train(x, x[:, 0] - 3 * x[:, 1] + 0.2 * x[:, 2], ["a", "b", "c", "d"])


def test_contributions_are_the_mean_absolute_shap_values_of_the_sample(model, tmp_path):
    x = documents(600)
    files = write_pairs(tmp_path, x)
    result = importance_of(model, LOCAL, files)
    assert result["rows"] == 600  # all are used
    booster = lgb.Booster(model_str=model)
    shap = booster.predict(x, pred_contrib=True)
    rows = {row["feature"]: row for row in result["features"]}
    for k, name in enumerate("abcd"):
        total = 0.0
        for document in shap:
            total += abs(document[k])
        assert rows[name]["contribution"] == pytest.approx(total / 600, rel=1e-4)
        assert rows[name]["split"] == booster.feature_importance("split")[k]
        assert rows[name]["gain"] == pytest.approx(booster.feature_importance("gain")[k], rel=1e-5)
    assert [row["feature"] for row in result["features"]][:3] == ["b", "a", "c"]
    assert rows["b"]["direction"] < -0.9
    assert rows["a"]["direction"] > 0.9
    assert rows["d"]["direction"] is None or rows["d"]["contribution"] < 0.05
    assert result["gain"] == pytest.approx(sum(booster.feature_importance("gain")))


def test_the_table_is_the_same_again_and_fits_json(model, tmp_path):
    x = documents(600)
    x[::3, 1] = np.nan
    x[5, 0] = np.inf
    files = write_pairs(tmp_path, x)
    first = importance_of(model, LOCAL, files)
    assert json.dumps(first, allow_nan=False) == json.dumps(importance_of(model, LOCAL, files))
    assert {row["feature"]: row for row in first["features"]}["b"]["direction"] < -0.9


@pytest.mark.parametrize(("rows", "files", "group"), [(20_000, 3, 50), (9000, 40, 10), (7, 1, 1)])
def test_the_sample_is_spread_over_the_files_and_bounded(tmp_path, rows, files, group):
    x = documents(rows)
    x[:, 0] = np.arange(rows)
    sample = sample_documents(LOCAL, write_pairs(tmp_path, x, files=files, group=group), WIDTH, 400)
    assert sample.shape == (min(sample.shape[0], 400), WIDTH)
    chosen = sample[:, 0].astype(int)
    assert len(set(chosen)) == len(chosen)
    np.testing.assert_array_equal(sample, x[chosen])
    if rows > 400:
        assert len(chosen) >= 350
        assert chosen.min() < rows / 8
        assert chosen.max() > rows * 3 / 4
    else:
        assert sorted(chosen) == list(range(rows))


def test_deep_trees_are_explained_on_fewer_documents(tmp_path):
    x = documents(20_000)
    y = np.sin(5 * x[:, 0]) + x[:, 1]
    files = write_pairs(tmp_path, x[:3000], group=200)
    small = importance_of(train(x, y, num_leaves=4), LOCAL, files)
    large = importance_of(
        train(x, y, num_leaves=2000, min_data_in_leaf=1, learning_rate=0.9), LOCAL, files
    )
    assert small["rows"] == MAX_ROWS
    assert MIN_ROWS <= large["rows"] < MAX_ROWS


def test_features_without_names_are_called_by_their_columns(tmp_path):
    x = documents(500)
    result = importance_of(train(x, x[:, 2]), LOCAL, write_pairs(tmp_path, x))
    assert result["features"][0]["feature"] == "Column_2"
    assert {row["feature"] for row in result["features"]} == {f"Column_{k}" for k in range(WIDTH)}


def test_a_model_of_one_leaf_has_no_importance(tmp_path):
    x = documents(100)
    result = importance_of(train(x, np.ones(100)), LOCAL, write_pairs(tmp_path, x))
    assert [row["contribution"] for row in result["features"]] == [0.0] * WIDTH
    assert [row["direction"] for row in result["features"]] == [None] * WIDTH


def test_pairs_without_documents_leave_the_contributions_unknown(model, tmp_path):
    path = str(tmp_path / "part.parquet")
    pq.write_table(pairs_schema.empty_table(), path)
    for files in ([path], []):
        result = importance_of(model, LOCAL, files)
        assert result["rows"] == 0
        assert {row["contribution"] for row in result["features"]} == {None}
        assert result["features"][0]["gain"] > 0


def test_a_linear_model_has_weights_and_no_gain(tmp_path):
    x = documents(600)
    x[:, 1] = np.arange(600) % 2  # mean 0.5, so every value is 0.5 away from it
    text = linear_model_text(np.array([0.0, -3.0, 0.001, 0.0]), 0.5, ["a", "b", "c", "d"])
    result = importance_of(text, LOCAL, write_pairs(tmp_path, x))
    first = result["features"][0]
    assert result["linear"]
    assert (first["feature"], first["weight"], first["direction"]) == ("b", -3.0, -1.0)
    assert first["contribution"] == pytest.approx(1.5)
    assert "gain" not in first
