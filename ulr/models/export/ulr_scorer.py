"""The pyfunc loader that is stored with every registered model; it needs LightGBM and numpy only.

Features are cast to float32, as they were in training, so that a float64 value is on the same side
of every threshold as in the service.
"""

from __future__ import annotations

from typing import Any

import lightgbm as lgb
import numpy as np


class Float32Scorer:
    """A Booster whose features are cast to float32."""

    def __init__(self, booster: lgb.Booster) -> None:
        self.booster = booster

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> np.ndarray:
        """Return float64 scores of the rows of an array or a DataFrame."""
        with np.errstate(over="ignore"):
            features = np.asarray(model_input, dtype=np.float32)
        return np.asarray(self.booster.predict(features, **(params or {})))


def _load_pyfunc(path: str) -> Float32Scorer:
    """Return the model of a file; called by MLflow."""
    return Float32Scorer(lgb.Booster(model_file=path))
