"""A trained model with what was learned beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import lightgbm as lgb
import numpy as np

from ulr.errors import UserError
from ulr.models.text import finished_model
from ulr.training.biases import LearnedBiases
from ulr.training.checkpoint import TrainState
from ulr.training.stopping import as_losses, best_iteration
from ulr.training.validation import ndcg_cutoff


@dataclass(frozen=True)
class TrainedRanker:
    """A model, the biases learned with it, and one validation value per iteration.

    choice: how method and number of leaves were chosen. note: why validation decided nothing.
    """

    booster: lgb.Booster
    best_iteration: int
    biases: LearnedBiases | None
    history: list[float] = field(default_factory=list)
    choice: Mapping[str, Any] | None = None
    note: str = ""

    @property
    def warnings(self) -> list[str]:
        """Doubts about the model, each one line."""
        doubts = self.biases.warnings() if self.biases else []
        return [*doubts, self.note] if self.note else doubts

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Return scores (float64) from the trees up to the best iteration."""
        return np.asarray(self.booster.predict(features, num_iteration=self.best_iteration))

    def model_text(self) -> str:
        """Return LightGBM's text format."""
        return self.booster.model_to_string(num_iteration=self.best_iteration)


def make_ranker(state: TrainState, early_stopping_metric: str) -> TrainedRanker:
    """Return the model at the end of training, up to its best iteration if it was validated."""
    if not state.model:
        raise UserError(
            "not one tree could be split; lower lightgbm.min_sum_hessian_in_leaf, "
            "or train on more pairs"
        )
    best = state.num_iterations
    if state.blocks and not state.note:
        higher_is_better = ndcg_cutoff(early_stopping_metric) is not None
        best = best_iteration(as_losses(state.blocks, higher_is_better))
    booster = lgb.Booster(model_str=finished_model(state.model))
    return TrainedRanker(booster, best, state.biases, list(state.history), state.choice, state.note)
