"""A model's text as a function from features to scores; a wrong width is one clear error."""

from __future__ import annotations

from collections.abc import Callable

import lightgbm as lgb
import numpy as np

from ulr.errors import UserError


def load_booster(text: str) -> lgb.Booster:
    """The model itself."""
    return lgb.Booster(model_str=text)


def lightgbm_version() -> str:
    """What a model needs where it is loaded."""
    return lgb.__version__


def load_scorer(text: str, name: str, *, threads: int = 1) -> Callable[[np.ndarray], np.ndarray]:
    """Scores (float64) of rows x width features. One thread: Spark's tasks fill the cores."""
    booster = load_booster(text)
    width = booster.num_feature()

    def score(features: np.ndarray) -> np.ndarray:
        check_width(features.shape[1], width, name)
        return booster.predict(features, num_threads=threads)

    return score


def check_width(given: int, wanted: int, name: str) -> None:
    """Features of another number would be scored without a word, and wrongly."""
    if given != wanted:
        raise UserError(
            f"model {name} was trained on {wanted} features and these rows have {given}; "
            "give the features it was trained on (features.path), or train on these"
        )
