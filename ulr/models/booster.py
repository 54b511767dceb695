"""Scores under a text model: of Arrow feature columns, or of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import lightgbm as lgb
import numpy as np
import pyarrow as pa

from ulr.engine.columns import lists
from ulr.errors import UserError
from ulr.features.files import FeatureFiles, name_difference


def load_booster(model_text: str) -> lgb.Booster:
    """The LightGBM model itself."""
    return lgb.Booster(model_str=model_text)


def lightgbm_version() -> str:
    """What a model needs where it is loaded."""
    return lgb.__version__


def load_scorer(model_text: str, name: str) -> Callable[[np.ndarray], np.ndarray]:
    """Scores (float64) of rows x width features. One thread: Spark's tasks fill the cores."""
    booster = load_booster(model_text)

    def score(features: np.ndarray) -> np.ndarray:
        check_width(features.shape[1], booster.num_feature(), name)
        return booster.predict(features, num_threads=1)

    return score


def model_names(booster: lgb.Booster) -> list[str]:
    """The features' names that a model was trained with; nothing where LightGBM numbered them."""
    names = booster.feature_name()
    return [] if names == [f"Column_{i}" for i in range(len(names))] else names


def other_features(first: str, second: str) -> str:
    """What the second model takes and the first does not, in words; nothing if they can be told
    apart by neither number nor name."""
    one, two = load_booster(first), load_booster(second)
    if one.num_feature() != two.num_feature():
        return f"it has {two.num_feature()} features, the other {one.num_feature()}"
    return name_difference(model_names(one), model_names(two))


def check_width(given: int, wanted: int, name: str) -> None:
    """Features of another number must not be scored as if they were the right ones."""
    if given != wanted:
        raise UserError(
            f"model {name} was trained on {wanted} features and these rows have {given}; "
            "give the features it was trained on (features.path), or train on these"
        )


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


def check_order(features: FeatureFiles, models: Mapping[str, str]) -> None:
    """Refuse models (text by name) that were trained on these features in another order.

    Only names can tell: a table without them, or a model trained on one, is checked for its
    number of features alone.
    """
    names = features.names()
    for name, text in models.items():
        if difference := name_difference(model_names(load_booster(text)), names):
            raise UserError(
                f"{features.paths[0]}: {difference} in model {name}; give the features in the "
                "order it was trained on, or train on these"
            )
