"""Load LightGBM Boosters from model texts, compare their features and score Arrow or NumPy data."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence

import lightgbm as lgb
import numpy as np
import pyarrow as pa

from ulr.engine.columns import list_array, lists
from ulr.errors import InvalidData, UserError
from ulr.features.reading import name_difference
from ulr.models.check import prediction_text

_NAMES_SHOWN = 20  # in messages


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


def check_features(names: Sequence[str], source: str, models: Mapping[str, str]) -> None:
    """Raise UserError if a model was trained on a feature that a table does not have.

    names: of the table's features. models: model texts by name. Nothing is checked if the table or
    the model have no feature names; see `load_scorer`.
    """
    for model, text in models.items():
        own = model_feature_names(load_booster(text))
        missing = [name for name in own if name not in names] if names else []
        if missing:
            near = difflib.get_close_matches(missing[0], names, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise UserError(
                f"{source}: no feature {missing[0]}, which model {model} was trained on; {hint}it "
                f"has {', '.join(names[:_NAMES_SHOWN])}{', ...' * (len(names) > _NAMES_SHOWN)}; "
                "add it, or train a new model on these features"
            )


def load_scorer(
    model_text: str, name: str, names: Sequence[str] = ()
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from float32 features (rows x width) to float64 scores.

    names: of the features. The model's features are found by name, in any order and among others,
    if both have names. Else the function raises UserError unless the rows have the model's number
    of features, which are in the model's order.
    """
    booster = load_booster(model_text)
    own = model_feature_names(booster) if names else []
    columns = [list(names).index(feature) for feature in own]
    in_order = columns == list(range(len(names)))

    def score(features: np.ndarray) -> np.ndarray:
        if columns and features.shape[1] != len(names):
            raise InvalidData(
                f"the rows have {features.shape[1]} features, and the metadata of the table "
                f"{len(names)} names; correct the names or remove them"
            )
        if columns and not in_order:
            features = features[:, columns]
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
            scores = np.zeros(0)
            if len(features):
                scores = _predict(booster, _rows_of(booster, features))
            yield pa.array(scores, pa.float64())

    return score


def arrow_contributions(model_text: str) -> Callable[[Iterator[pa.Array]], Iterator[pa.Array]]:
    """Return a function from list<float> arrays to the contributions of each feature to the score.

    They are LightGBM's SHAP values, and last the expected score: their sum is the score.
    """

    def contribute(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        booster = load_booster(model_text)
        width = booster.num_feature() + 1
        for features in batches:
            values = np.zeros(0)
            if len(features):
                rows = _rows_of(booster, features)
                predicted = booster.predict(rows, pred_contrib=True, num_threads=1)
                values = np.asarray(predicted, float).reshape(-1)
            yield list_array(np.full(len(features), width), pa.array(values))

    return contribute


def _rows_of(booster: lgb.Booster, features: pa.Array) -> np.ndarray:
    """Return lists of features as rows; a missing feature is NaN."""
    width = booster.num_feature()
    lengths = lists(features).lengths
    if features.null_count:
        raise UserError(
            f"featuresCol has {features.null_count:,} null values in a batch of {len(features):,} "
            "rows; replace them or drop those rows (a null among the features of a row is allowed)"
        )
    if (lengths != width).any():
        length = int(lengths[np.flatnonzero(lengths != width)[0]])
        raise UserError(f"a row has {length} features; the model was trained on {width}")
    values = features.flatten().to_numpy(zero_copy_only=False)
    return values.reshape(-1, width)


def _predict(booster: lgb.Booster, features: np.ndarray) -> np.ndarray:
    # One thread, because the tasks already use every core.
    return np.asarray(booster.predict(features, num_threads=1))
