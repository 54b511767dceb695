"""Scores of Arrow feature columns under a text model."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import lightgbm as lgb
import numpy as np
import pyarrow as pa

from ulr.arrow import lists
from ulr.errors import UserError


def load_booster(model_text: str) -> lgb.Booster:
    """The LightGBM model itself."""
    return lgb.Booster(model_str=model_text)


def scorer(model_text: str) -> Callable[[Iterator[pa.Array]], Iterator[pa.Array]]:
    """A function of array<float> batches that loads the model once, wherever it is called."""

    def score(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        booster = load_booster(model_text)
        for features in batches:
            yield pa.array(score_rows(booster, features), pa.float64())

    return score


def score_rows(booster: lgb.Booster, features: pa.Array) -> np.ndarray:
    """One score a row; the features are not copied."""
    if not len(features):
        return np.zeros(0)
    width = booster.num_feature()
    lengths = lists(features).lengths
    if (lengths != width).any():
        wrong = int(lengths[np.flatnonzero(lengths != width)[0]])
        raise UserError(f"a row of {wrong} features; the model was trained on {width} a row")
    values = features.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    return booster.predict(values, num_threads=1)
