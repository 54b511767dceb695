"""What is asked of one training, and what to remember of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulr.training.local import TrainedRanker

LEARNED = "unbiased-lambdamart"  # the method whose biases are learned while training


@dataclass(frozen=True)
class TrainPlan:
    """Settings of one training, as plain values."""

    method: str
    num_iterations: int
    lightgbm: Mapping[str, Any]
    objective: str = "lambdarank"
    nonnegative_weights: bool = True
    validation_fraction: float = 0.0
    early_stopping_metric: str = "pair_loss"
    early_stopping_round: int = 0
    bias_regularization: int = 2
    position_bins: int = 50
    theta: np.ndarray | None = None  # given: only t- is learned
    checkpoint_every: int = 50
    feature_names: Sequence[str] = ()  # written into the model; none: LightGBM's own


def record_of(ranker: TrainedRanker, plan: TrainPlan) -> dict[str, Any]:
    """What is kept beside the model: how it was made and what was learned with it."""
    biases = ranker.biases
    return {
        "method": plan.method,
        "best_iteration": ranker.best_iteration,
        "validation": {plan.early_stopping_metric: ranker.history} if ranker.history else {},
        "t_plus": biases.t_plus.tolist() if biases else None,
        "t_minus": biases.t_minus.tolist() if biases else None,
        "lightgbm": dict(plan.lightgbm),
    }
