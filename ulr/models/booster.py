"""Load LightGBM Boosters from model texts, compare their features and score Arrow or NumPy data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import lightgbm as lgb
import numpy as np
import pyarrow as pa

from ulr.engine.columns import lists
from ulr.errors import UserError
from ulr.features.files import FeatureFiles, name_difference
from ulr.models.check import prediction_text


def lightgbm_version() -> str:
    """Return the installed LightGBM version, which an environment needs to load the models."""
    return lgb.__version__


def load_booster(model_text: str) -> lgb.Booster:
    """Return a Booster of a model text that has passed `read_checked`, without its parameters."""
    try:
        return lgb.Booster(model_str=prediction_text(model_text))
    except (lgb.basic.LightGBMError, ValueError) as error:
        reason = str(error).split("\n", maxsplit=1)[0]
        raise UserError(f"LightGBM cannot read the model: {reason}; train it again") from None


def model_feature_names(booster: lgb.Booster) -> list[str]:
    """Return the feature names of a model; empty if it was trained without names."""
    names = booster.feature_name()
    return [] if names == [f"Column_{i}" for i in range(len(names))] else names


def feature_difference(first: str, second: str) -> str:
    """Return how the features of the second model differ from the first's; "" if they are equal.

    first, second: model texts. Models without feature names are compared by number of features.
    """
    one, two = load_booster(first), load_booster(second)
    if one.num_feature() != two.num_feature():
        return f"it has {two.num_feature()} features, the other {one.num_feature()}"
    return name_difference(model_feature_names(one), model_feature_names(two))


def check_order(features: FeatureFiles, models: Mapping[str, str]) -> None:
    """Raise UserError if a model was trained on these features in a different order.

    models: model texts by name. The order is not checked if the features files or the model have
    no feature names.
    """
    names = features.names()
    for name, text in models.items():
        if difference := name_difference(model_feature_names(load_booster(text)), names):
            raise UserError(
                f"{features.paths[0]}: {difference} in model {name}; give the features in the "
                "order of the model, or train a new model on these features"
            )


def load_scorer(model_text: str, name: str) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from float32 features (rows x width) to float64 scores.

    The function raises UserError if the rows do not have the model's number of features.
    """
    booster = load_booster(model_text)

    def score(features: np.ndarray) -> np.ndarray:
        if features.shape[1] != booster.num_feature():
            raise UserError(
                f"model {name} was trained on {booster.num_feature()} features and these rows have "
                f"{features.shape[1]}; give the features it was trained on (features.path), or "
                "train a new model on these"
            )
        return _predict(booster, features)

    return score


def arrow_scorer(model_text: str) -> Callable[[Iterator[pa.Array]], Iterator[pa.Array]]:
    """Return a function from list<float> arrays to double arrays; a call loads the model once."""

    def score(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        booster = load_booster(model_text)
        for features in batches:
            yield pa.array(_score_rows(booster, features), pa.float64())

    return score


def _score_rows(booster: lgb.Booster, features: pa.Array) -> np.ndarray:
    if not len(features):
        return np.zeros(0)
    width = booster.num_feature()
    lengths = lists(features).lengths
    if (lengths != width).any():
        length = int(lengths[np.flatnonzero(lengths != width)[0]])
        raise UserError(f"a row has {length} features; the model was trained on {width}")
    values = features.flatten().to_numpy(zero_copy_only=False)
    return _predict(booster, values.reshape(-1, width))


def _predict(booster: lgb.Booster, features: np.ndarray) -> np.ndarray:
    # One thread, because the Spark tasks already use every core.
    return np.asarray(booster.predict(features, num_threads=1))
