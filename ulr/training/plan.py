"""The settings of one training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulr.training.objective import Biases, initial_biases
from ulr.training.parameters import Learner, split_parameters
from ulr.training.validation import ndcg_cutoff

UNBIASED_LAMBDAMART = "unbiased-lambdamart"  # the method that learns t+ and t- while training


@dataclass(frozen=True)
class TrainPlan:
    """Settings of one training, as plain values.

    early_stopping_round: 0 grows all iterations. checkpoint_every: 0 saves at the end only.
    theta: t+ is fixed to it and only t- is learned. feature_names: written into the model, or
    LightGBM's own if empty.
    """

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
    theta: np.ndarray | None = None
    checkpoint_every: int = 50
    feature_names: Sequence[str] = ()

    def learner(self) -> Learner:
        """Check the settings and return those of the learner."""
        ndcg_cutoff(self.early_stopping_metric)
        return split_parameters(self.lightgbm, self.objective, self.nonnegative_weights)

    def initial_biases(self, max_position: int) -> Biases | None:
        """Return t+ and t- before the first iteration, or None if the method has none."""
        if self.method != UNBIASED_LAMBDAMART:
            return None
        bins = min(self.position_bins, max_position)
        return initial_biases(bins, self.bias_regularization, self.theta)
