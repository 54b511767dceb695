"""Exported files give the scores of LightGBM in the engines' evaluators, edges included."""

from __future__ import annotations

import importlib.util
import json
import re

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.edge_rows import edge_rows, splits_of
from tests.support.engines import SCORES
from ulr.errors import UserError
from ulr.models.export.formats import FILES, export_model
from ulr.models.export.solr import scale_power, without_slack
from ulr.models.linear import linear_model_text
from ulr.models.text import finished_model

NAMES = ["bm25", "attribute(price)", "fieldMatch(title).completeness", "age"]
needs_onnx = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("onnx", "onnxruntime"))), reason="extra onnx"
)
FORMATS = [pytest.param(f, marks=needs_onnx) if f == "onnx" else f for f in FILES]
KINDS = {
    "no missing values": {},
    "missing values": {},
    "zeros missing": {"zero_as_missing": True},
    "zeros and missing values": {"zero_as_missing": True},
    "missing values not used": {"use_missing": False},
}


def trained(kind, names=NAMES, trees=8):
    """Return a model text as `train` writes it, and float32 rows it was trained on."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4000, len(NAMES))).astype(np.float32)
    x[:, 0] = np.abs(x[:, 0]) * 30  # thresholds far from zero, and zeros
    x[rng.random(x.shape) < 0.3] = 0
    x[:, 3] *= np.float32(1e-7)  # below Solr's slack
    if kind in ("missing values", "zeros and missing values", "missing values not used"):
        x[rng.random(x.shape) < 0.2] = np.nan
    y = np.nan_to_num(x[:, 0] / 30 + x[:, 3] * 1e7) + 2.0 * (np.isnan(x[:, 1]) | (x[:, 2] == 0))
    own = {"num_leaves": 15, "min_data_in_leaf": 5, "verbose": -1, "num_threads": 1}
    data = lgb.Dataset(x, y, feature_name=names or "auto")
    return finished_model(lgb.train(own | KINDS[kind], data, trees).model_to_string()), x


@pytest.fixture(scope="module", params=KINDS)
def model(request):
    """A model text, rows with every edge, and LightGBM's scores."""
    text, x = trained(request.param)
    rows = np.concatenate([edge_rows(x, splits_of(text)), x[:300]])
    return text, rows, lgb.Booster(model_str=text).predict(rows)


@pytest.mark.parametrize("form", FORMATS)
def test_the_engine_gives_the_scores_of_lightgbm_on_every_edge(form, model):
    text, rows, expected = model
    if any(np.isinf(t) for _, t in splits_of(text)) and form not in ("solr", "onnx"):
        # A split of values from missing ones: nothing is below infinity.
        finite = ~np.isposinf(rows).any(axis=1)
        rows, expected = rows[finite], expected[finite]
    scores = SCORES[form](export_model(text, form, "ranker"), rows, NAMES)
    # One row on the wrong side of a split differs by about 0.1.
    np.testing.assert_allclose(scores, expected, rtol=0, atol=4e-6)


@pytest.mark.parametrize("form", FORMATS)
def test_an_export_has_the_same_bytes_again(form, model):
    assert export_model(model[0], form, "ranker") == export_model(model[0], form, "ranker")


@pytest.mark.parametrize("form", FORMATS)
def test_a_model_of_one_leaf_is_a_constant(form):
    x = np.zeros((200, 4), np.float32)
    data = lgb.Dataset(x, np.full(200, 0.5), feature_name=NAMES)
    text = lgb.train({"verbose": -1}, data, 1).model_to_string()
    scores = SCORES[form](export_model(text, form, "ranker"), x[:3], NAMES)
    np.testing.assert_allclose(scores, 0.5, rtol=1e-6)


def test_splits_of_a_model_of_the_plugin_need_features_of_the_set():
    text, x = trained("no missing values")
    content = export_model(text, "opensearch", "ranker")
    with pytest.raises(AssertionError):
        SCORES["opensearch"](content, x[:5], NAMES, feature_set=NAMES[:1])
    assert json.loads(content)["model"]["name"] == "ranker"


@pytest.mark.parametrize("form", ["opensearch", "elasticsearch", "solr", "vespa"])
def test_a_model_without_names_is_refused(form):
    text, _ = trained("no missing values", names=None)
    with pytest.raises(UserError, match=r"no feature names.*features\.columns"):
        export_model(text, form, "ranker")


@pytest.mark.parametrize(("name", "read"), [
    ("price-eur", False), ("1st", False), ("a+b", False), ("größe", False), ("bm25(title", False),
    ("price", True), ("query(user_age)", True), ("fieldMatch(title).completeness", True),
    ("closeness(field,embedding)", True), ("tensorFromLabels(attribute(tags))", True),
])  # fmt: skip
def test_a_name_that_vespa_would_read_as_an_expression_is_refused(name, read):
    text, _ = trained("no missing values")
    text = text.replace(" age", f" {name}")
    if read:
        assert json.loads(export_model(text, "vespa", "ranker"))["feature_names"][3] == name
        return
    with pytest.raises(UserError, match=re.escape(repr(name)) + ".*rank feature"):
        export_model(text, "vespa", "ranker")
    assert export_model(text, "opensearch", "ranker")


@needs_onnx
def test_onnx_needs_no_names():
    text, x = trained("no missing values", names=None)
    scores = SCORES["onnx"](export_model(text, "onnx", "ranker"), x, None)
    np.testing.assert_allclose(scores, lgb.Booster(model_str=text).predict(x), atol=4e-6)


WEIGHTS = np.array([0.25, 0.0, -1.5, 3e6])


@pytest.mark.parametrize("form", ["opensearch", "elasticsearch", "solr"])
def test_a_linear_model_gives_its_scores_without_the_constant(form):
    text, (_, x) = linear_model_text(WEIGHTS, 0.75, NAMES), trained("no missing values")
    scores = SCORES[form](export_model(text, form, "ranker"), x, NAMES)
    expected = lgb.Booster(model_str=text).predict(x) - 0.75
    np.testing.assert_allclose(scores, expected, atol=4e-6)


@needs_onnx
def test_a_linear_model_as_onnx_gives_its_scores_and_0_with_a_missing_value():
    text, (_, x) = linear_model_text(WEIGHTS, 0.75, NAMES), trained("missing values")
    scores = SCORES["onnx"](export_model(text, "onnx", "ranker"), x, NAMES)
    np.testing.assert_allclose(scores, lgb.Booster(model_str=text).predict(x), atol=4e-6)


def test_a_linear_model_for_vespa_is_refused_with_what_to_do():
    with pytest.raises(UserError, match=r"0.25 \* bm25 .*rank expression|rank expression"):
        export_model(linear_model_text(WEIGHTS, 0.75, NAMES), "vespa", "ranker")


def test_splits_on_categories_and_linear_leaves_are_refused():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (2000, 1)).astype(np.float32)
    for options, message in (({"categorical_feature": [0]}, "categories"),
                             ({"linear_tree": True}, "linear leaves")):  # fmt: skip
        data = lgb.Dataset(x, x[:, 0] % 3)
        text = lgb.train({"verbose": -1, **options}, data, 2).model_to_string()
        with pytest.raises(UserError, match=message):
            export_model(text, "vespa", "ranker")


float32s = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False)


@settings(max_examples=300, deadline=None)
@given(st.lists(float32s, min_size=1, max_size=20))
def test_scaled_thresholds_are_what_solr_tests_after_its_slack(values):
    thresholds = np.array(values, np.float64)
    power = scale_power(thresholds)
    tested = (without_slack(thresholds * 2.0**power) + np.float32(1e-6)).astype(np.float64)
    nonzero = np.abs(thresholds[thresholds != 0])
    if nonzero.size and (nonzero.min() < 1e-35 or nonzero.max() / nonzero.min() > 1e30):
        np.testing.assert_allclose(tested, thresholds * 2.0**power, rtol=1e-6, atol=1e-12)
    else:
        np.testing.assert_array_equal(tested, thresholds * 2.0**power)
