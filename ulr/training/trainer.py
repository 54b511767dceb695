"""One process: a LightGBM model on a pair table, with early stopping and learned biases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import lightgbm as lgb
import numpy as np

from ulr.errors import UserError
from ulr.kernels.threads import use_threads
from ulr.training.biases import Biases
from ulr.training.dataset import RankingData
from ulr.training.objective import LambdaOptions, PairObjective
from ulr.training.validation import Criterion, make_criterion

OURS = ("sigmoid", "lambdarank_truncation_level", "lambdarank_norm")
NOT_OURS = ("objective", "metric", "num_iterations", "early_stopping_round")


@dataclass(frozen=True)
class TrainedRanker:
    """The model, what was learned beside it, and how validation went (one value a round)."""

    booster: lgb.Booster
    best_iteration: int
    biases: Biases | None
    history: list[float] = field(default_factory=list)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Scores with the trees up to the best iteration."""
        return self.booster.predict(features, num_iteration=self.best_iteration)

    def model_text(self) -> str:
        """LightGBM's text form."""
        return self.booster.model_to_string(num_iteration=self.best_iteration)


@dataclass
class _Progress:
    """Best value so far, and when."""

    criterion: Criterion
    patience: int
    history: list[float] = field(default_factory=list)
    best: int = 0

    def add(self, value: float) -> bool:
        """Note a round's value; True when there was no improvement for `patience` rounds."""
        self.history.append(value)
        if len(self.history) == 1 or self.criterion.better(value, self.history[self.best]):
            self.best = len(self.history) - 1
        return len(self.history) - 1 - self.best >= self.patience


def split_parameters(
    lightgbm: Mapping[str, Any], metric: str, repair: bool = True
) -> tuple[dict[str, Any], LambdaOptions]:
    """LightGBM's own parameters, and the ones that our objective reads instead."""
    taken = [key for key in NOT_OURS if key in lightgbm]
    if taken:
        raise UserError(
            f"lightgbm.{taken[0]} is set by training itself; see the train section instead"
        )
    ours = {key: lightgbm[key] for key in OURS if key in lightgbm}
    rest = {key: value for key, value in lightgbm.items() if key not in OURS}
    return {"verbose": -1, **rest, "objective": "none"}, LambdaOptions(
        **ours, metric=metric, repair=repair
    )


def train_ranker(
    data: RankingData,
    *,
    rounds: int,
    lightgbm: Mapping[str, Any],
    metric: str = "ndcg",
    repair: bool = True,
    biases: Biases | None = None,
    validation: RankingData | None = None,
    stop_on: str = "pair_loss",
    patience: int = 0,
    after_round: Callable[[int, float | None], None] | None = None,
) -> TrainedRanker:
    """Grow up to `rounds` trees; with `validation` and `patience`, keep the best prefix of them.

    after_round: told the round's number and its validation value, if there is one.
    """
    parameters, options = split_parameters(lightgbm, metric, repair)
    use_threads(int(parameters.get("num_threads", 0)))
    objective = PairObjective(data.pairs, options, biases)
    booster = lgb.Booster(parameters, _dataset(data, parameters))
    progress = None
    if validation is not None and patience > 0:
        criterion = make_criterion(stop_on, validation, options.sigmoid)
        _add_validation(booster, data, validation, parameters)
        progress = _Progress(criterion, patience)

    def gradients(scores: np.ndarray, _: lgb.Dataset) -> tuple[np.ndarray, np.ndarray]:
        # Scores of the last round: what biases are learned from, except before the first tree.
        if booster.current_iteration() > 0:
            objective.learn_biases(scores)
        return objective.fill(scores)

    for number in range(1, rounds + 1):
        if booster.update(fobj=gradients):
            break  # no leaf can be split any more
        value = _validate(booster, progress) if progress else None
        if after_round:
            after_round(number, value)
        if progress and value is not None and progress.add(value):
            break
    best = progress.best + 1 if progress and progress.history else booster.current_iteration()
    history = progress.history if progress else []
    return TrainedRanker(booster, best, objective.biases, history)


def _dataset(
    data: RankingData, parameters: Mapping[str, Any], reference: lgb.Dataset | None = None
) -> lgb.Dataset:
    """Labels are not used: the objective knows the pairs."""
    labels = np.zeros(data.pairs.rows, np.float32)
    return lgb.Dataset(data.features, labels, reference=reference, params=dict(parameters))


def _add_validation(
    booster: lgb.Booster,
    data: RankingData,
    validation: RankingData,
    parameters: Mapping[str, Any],
) -> None:
    if validation.features.shape[1] != data.features.shape[1]:
        raise UserError(
            f"validation rows have {validation.features.shape[1]} features, training rows "
            f"{data.features.shape[1]}; build both pair tables from the same features"
        )
    booster.add_valid(_dataset(validation, parameters, booster.train_set), "validation")


def _validate(booster: lgb.Booster, progress: _Progress) -> float:
    criterion = progress.criterion

    def measure(scores: np.ndarray, _: lgb.Dataset) -> tuple[str, float, bool]:
        value = criterion.value(criterion.totals(scores))
        return criterion.name, value, criterion.higher_is_better

    return float(booster.eval_valid(measure)[0][2])
