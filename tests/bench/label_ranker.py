"""LightGBM's own lambdarank on golden labels: the upper bound of the quality benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import lightgbm as lgb
import numpy as np

Predict = Callable[[np.ndarray], np.ndarray]


def train_on_labels(
    features: np.ndarray,
    labels: np.ndarray,
    documents: np.ndarray,
    lightgbm: Mapping[str, Any],
    rounds: int,
) -> Predict:
    """Train on lists of documents: rows of `features`, one list per row, -1 after its end."""
    rows, sizes = documents[documents >= 0], (documents >= 0).sum(axis=1)
    data = lgb.Dataset(features[rows], labels[rows], group=sizes)
    parameters = {k: v for k, v in lightgbm.items() if k != "lambdarank_norm"}
    own = {"objective": "lambdarank", "min_data_in_leaf": 20, "min_sum_hessian_in_leaf": 1e-3}
    if parameters.get("num_leaves") == "auto":
        own["num_leaves"] = 31
    return lgb.train({**parameters, **own, "verbose": -1}, data, rounds).predict
