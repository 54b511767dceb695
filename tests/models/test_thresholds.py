"""Thresholds as float32 change no score of float32 features, whatever the threshold."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.edge_rows import ZERO, edge_rows, edge_values, splits_of
from ulr.models.check import read_checked
from ulr.models.text import finished_model
from ulr.models.thresholds import float32_thresholds, next_above

LARGEST = float(np.finfo(np.float32).max)
THRESHOLDS = [0.0, -0.0, float(ZERO), -float(ZERO), 1e-36, -1e-36, 1e-300, 0.1, -0.1, 16777217.0,
              LARGEST, -LARGEST, 1e300, -1e300, np.nextafter(LARGEST, np.inf)]  # fmt: skip


def read_by_lightgbm(values):
    """Return float32 values as LightGBM's prediction reads them."""
    return np.where(np.abs(values) <= ZERO, np.float32(0), values).astype(np.float64)


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_the_replacement_separates_the_same_values(threshold):
    check_threshold(threshold)


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(1.0000000180025095e-35)
def test_the_replacement_of_any_threshold_separates_the_same_values(threshold):
    check_threshold(threshold)


def check_threshold(threshold):
    values = edge_values(np.array([threshold]))
    values = values[~np.isnan(values)]
    left = read_by_lightgbm(values) <= threshold
    (new,) = float32_thresholds(np.array([threshold]))
    np.testing.assert_array_equal(read_by_lightgbm(values) <= new, left)
    with np.errstate(over="ignore"):  # also without that reading
        np.testing.assert_array_equal(values <= np.float32(new), left)
    assert np.isfinite(new)
    if threshold >= -LARGEST:
        assert new == np.float32(new)
        wide = values.astype(np.float64)
        if abs(threshold) > float(ZERO):
            assert new == wide[wide <= threshold].max()  # the largest float32 not above it
    following = next_above(
        float(np.float64(new).astype(np.float32)) if new >= -LARGEST else -np.inf
    )
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(values < np.float32(following), left)


RNG = np.random.default_rng(1)
KINDS = {"no missing values": {}, "missing values": {}, "zeros": {"zero_as_missing": True},
         "both": {"zero_as_missing": True}, "ignored": {"use_missing": False}}  # fmt: skip


def trained(kind, *, spread=1.0):
    """Return a model whose missing values are of a kind, and its float32 rows."""
    x = (RNG.normal(size=(3000, 4)) * spread).astype(np.float32)
    x[RNG.random(x.shape) < 0.3] = 0
    if kind in ("missing values", "both", "ignored"):
        x[RNG.random(x.shape) < 0.2] = np.nan
    y = np.nan_to_num(x[:, 0] / spread) + (np.isnan(x[:, 1]) | (x[:, 2] == 0))
    settings = {"num_leaves": 15, "min_data_in_leaf": 5, "verbose": -1, "num_threads": 1}
    return lgb.train({**settings, **KINDS[kind]}, lgb.Dataset(x, y), 6).model_to_string(), x


@pytest.mark.parametrize("spread", [1.0, 1e-35, 1e-30, 1e37])
@pytest.mark.parametrize("kind", KINDS)
def test_lightgbm_gives_the_same_bits_at_and_beside_every_threshold(kind, spread):
    text, x = trained(kind, spread=spread)
    finished = finished_model(text)
    rows = edge_rows(x, [*splits_of(text), *splits_of(finished)])
    before, after = (lgb.Booster(model_str=t).predict(rows) for t in (text, finished))
    np.testing.assert_array_equal(before, after)


def test_a_finished_model_names_an_objective_and_is_a_fixed_point():
    text, x = trained("missing values")
    finished = finished_model(text)
    assert "\nobjective=lambdarank\n" in finished
    assert "[objective: lambdarank]" in finished
    assert finished_model(finished) == finished
    assert all(t == np.float32(t) for _, t in splits_of(finished))
    assert read_checked(finished.encode(), "finished") == finished
    more = lgb.train({"objective": "l2", "verbose": -1}, lgb.Dataset(x, x[:, 3]), 2,
                     init_model=lgb.Booster(model_str=finished))  # fmt: skip
    assert more.num_trees() == 8
    np.testing.assert_array_equal(
        more.predict(x, num_iteration=6, raw_score=True),
        lgb.Booster(model_str=finished).predict(x, raw_score=True),
    )


def test_a_model_of_a_custom_objective_gets_one():
    x = RNG.normal(size=(500, 2)).astype(np.float32)
    data = lgb.Dataset(x, x[:, 0])
    booster = lgb.train({"objective": lambda s, d: (s - d.get_label(), np.ones(s.size)),
                         "verbose": -1}, data, 3)  # fmt: skip
    text = booster.model_to_string()
    assert "[objective: custom]" in text
    finished = finished_model(text)
    assert "custom]" not in finished.replace("[metric: custom]", "")
    np.testing.assert_array_equal(lgb.Booster(model_str=finished).predict(x), booster.predict(x))
    assert lgb.Booster(model_str=finished).dump_model()["objective"] == "lambdarank"
