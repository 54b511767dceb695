"""The settings of one training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ulr.config.settings import Settings
from ulr.errors import UserError
from ulr.pairs.weightings import candidates_for
from ulr.pairs.weights import AUTO
from ulr.training.biases import LearnedBiases, initial_biases, initial_logits
from ulr.training.parameters import DEFAULT_LEAVES, Learner, leaves_of, split_parameters
from ulr.training.validation import ndcg_cutoff

LEAVES = (7, DEFAULT_LEAVES)  # to choose from
FIXED_CLICK_REGULARIZATION = 2.0  # p where t+ is given, as in Kurennoy 6.2
LINEAR = "linear"  # the ranker of one weight per feature
DLA = "dla"  # the method that learns logits of positions while training
POSITION_LEARNING_RATE = 0.05  # of these logits; more follows the overfitting of trees
UNBIASED_LAMBDAMART = "unbiased-lambdamart"  # the method that learns t+ and t- while training
# Settings of train that say how the work is distributed.
DISTRIBUTED_ONLY = ("num_workers", "worker_timeout", "max_retries", "max_concurrent_runs")


@dataclass(frozen=True)
class TrainPlan:
    """Settings of one training, as plain values.

    ranker: trees or linear; linear_loss and l2 are of the second, num_iterations is then the upper
    limit of L-BFGS. early_stopping_round: 0 grows all iterations. checkpoint_every: 0 saves at the
    end only. bias_rounds: biases are learned after each of the first iterations, up to this number;
    0: after every iteration. theta: t+ is fixed to it and only t- is learned, with the
    regularisation FIXED_CLICK_REGULARIZATION. feature_names: written into the model, or LightGBM's
    own if empty. click_model: of the pairs table, which decides on the candidates of `auto`.
    """

    method: str
    num_iterations: int
    lightgbm: Mapping[str, Any]
    ranker: str = "trees"
    objective: str = "lambdarank"
    linear_loss: str = "logistic"
    l2: float = 0.01
    nonnegative_weights: bool = True
    validation_fraction: float = 0.0
    early_stopping_metric: str = "pair_loss"
    early_stopping_round: int = 0
    bias_regularization: float = 0.5
    bias_rounds: int = 20
    position_bins: int = 50
    theta: np.ndarray | None = None
    checkpoint_every: int = 50
    feature_names: Sequence[str] = ()
    click_model: str = ""

    @property
    def candidates(self) -> tuple[str, ...]:
        """The weightings to choose from, the default first; a single method is the only one."""
        if self.method != AUTO:
            return (self.method,)
        return tuple(weighting.label for weighting in candidates_for(self.click_model))

    @property
    def leaf_choices(self) -> tuple[int, ...]:
        """The numbers of leaves to choose from, ascending; one if it is set, or for one method."""
        leaves = leaves_of(self.lightgbm)
        if leaves is None:
            return LEAVES if self.method == AUTO else (DEFAULT_LEAVES,)
        return (leaves,)

    @property
    def has_choice(self) -> bool:
        """Whether there is more than one candidate or number of leaves."""
        return len(self.candidates) * len(self.leaf_choices) > 1

    @property
    def validates(self) -> bool:
        """Whether training needs held-out queries. A linear ranker is not stopped early."""
        return self.ranker != LINEAR and self.early_stopping_round > 0

    def learner(self) -> Learner:
        """Check the settings and return those of the learner."""
        ndcg_cutoff(self.early_stopping_metric)
        if self.ranker == LINEAR and self.method == UNBIASED_LAMBDAMART:
            raise UserError(
                f"train.ranker = 'linear': the biases of method {self.method} are learned with "
                "trees; use train.ranker=trees, or another method such as prs or dla"
            )
        return split_parameters(self.lightgbm, self.objective, self.nonnegative_weights)

    def initial_biases(self, max_position: int) -> LearnedBiases | None:
        """Return the biases before the first iteration, or None if the method has none."""
        bins = min(self.position_bins, max_position)
        if self.method == DLA:
            return initial_logits(bins, 1.0 if self.ranker == LINEAR else POSITION_LEARNING_RATE)
        if self.method != UNBIASED_LAMBDAMART:
            return None
        if self.theta is not None:
            return initial_biases(bins, FIXED_CLICK_REGULARIZATION, self.theta)
        return initial_biases(bins, self.bias_regularization)

    def learns_biases(self, iteration: int) -> bool:
        """Return whether the biases are updated before tree `iteration`, counted from 0.

        There are no scores to learn from before the first tree. The answer depends on nothing but
        the iteration, so that it is the same in a resumed run.
        """
        return iteration > 0 and (not self.bias_rounds or iteration <= self.bias_rounds)


def plan_from_settings(
    settings: Settings, theta: np.ndarray | None, feature_names: Sequence[str] = ()
) -> TrainPlan:
    """Return the plan that the settings define. theta: of all traffic, with fixed_click_bias."""
    options = settings.train.model_dump(exclude={"fixed_click_bias", *DISTRIBUTED_ONLY})
    return TrainPlan(
        method=settings.pairs.method, lightgbm=dict(settings.lightgbm), theta=theta,
        feature_names=feature_names, **options,
    )  # fmt: skip
