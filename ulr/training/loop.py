"""The training loop of one rank.

Every rank runs the same loop on its own rows. Ranks agree because every decision depends on sums
over all of them: histograms inside LightGBM, the losses behind t+ and t-, the validation totals.
The sums are exact (gradients on a grid, integers elsewhere), so the model does not depend on the
number of ranks, from two on. Trees are grown in segments, one Booster each, from checkpoint to
checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import lightgbm as lgb
import numpy as np

from ulr.models.text import join_models, normalize_model
from ulr.training.checkpoint import TrainState
from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.lightgbm_network import open_network, units_per_row
from ulr.training.distributed.local_communicator import LocalCommunicator
from ulr.training.objective import PairObjective
from ulr.training.parameters import Learner
from ulr.training.plan import TrainPlan
from ulr.training.shard import RankShards
from ulr.training.validation import Criterion, best_iteration, make_criterion

CheckpointCallback = Callable[[TrainState], None]
# Called with the iteration, from 1, and its validation value, if there is one.
IterationCallback = Callable[[int, float | None], None]
NetworkCheck = Callable[[], None]


class RankMismatchError(RuntimeError):
    """The ranks computed different models: a fault of memory, a processor or a library."""


def ignore(*_: object) -> None:
    """Do nothing: the default callback."""


@dataclass
class Timings:
    """Seconds of one rank."""

    gradient: float = 0.0
    trees: float = 0.0
    network: float = 0.0
    validation: float = 0.0


class TrainingLoop:
    """One rank with its shards; `run` takes it from one state of training to the last."""

    def __init__(
        self,
        communicator: Communicator | LocalCommunicator,
        plan: TrainPlan,
        learner: Learner,
        shards: RankShards,
        state: TrainState,
    ) -> None:
        self.communicator, self.plan, self.learner, self.state = communicator, plan, learner, state
        self.train = shards.train
        self.validation = shards.validation if plan.early_stopping_round > 0 else None
        self.objective = PairObjective(
            self.train.data.pairs, learner.options, state.biases, communicator.sum
        )
        self.timings = Timings()
        self.scores = self.train.scores
        self.validation_scores = None if self.validation is None else self.validation.scores
        self.total_rows = int(communicator.sum(np.array([self.train.rows], np.int64))[0])
        self.units = units_per_row(self.total_rows)
        self.criterion = self._make_criterion()

    def _make_criterion(self) -> Criterion | None:
        """Return the criterion on all ranks or on none, whichever ranks have validation rows."""
        counts = np.zeros(2, np.int64)
        if self.validation is not None:
            counts[:] = self.validation.rows, (self.validation.data.labels > 0).sum()
        rows, positive = self.communicator.sum(counts)
        if not rows:
            return None
        return make_criterion(
            self.plan.early_stopping_metric, self.learner.options.sigmoid, positive=int(positive)
        )

    def run(
        self, on_checkpoint: CheckpointCallback = ignore, on_iteration: IterationCallback = ignore
    ) -> TrainState:
        """Train to the end; `on_checkpoint` is called with every state that can be resumed."""
        with open_network(self.communicator, self.train.rows, self.units) as check:
            while not self.state.finished:
                self.state = self._grow_segment(check, on_iteration)
                self._check_agreement()  # before a state that is wrong could be saved
                on_checkpoint(self.state)
        return self.state

    def _grow_segment(self, check: NetworkCheck, on_iteration: IterationCallback) -> TrainState:
        """Grow the trees up to the next checkpoint."""
        first, state = self.state.num_iterations, self.state
        length = self.plan.checkpoint_every or self.plan.num_iterations
        last = min(self.plan.num_iterations, (first // length + 1) * length)
        booster = self._make_booster(first)
        history, grown, finished = list(state.history), 0, last >= self.plan.num_iterations
        for iteration in range(first, last):
            if self._grow_tree(booster, check, iteration):
                finished = True  # no leaf can be split any more
                break
            grown += 1
            value = self._validate(booster)
            if value is not None:
                history.append(value)
            on_iteration(iteration + 1, value)
            if self._should_stop(history):
                finished = True
                break
        self._keep_scores(booster)
        model = state.model
        if grown:
            text = booster.model_to_string(num_iteration=grown)
            model = join_models(model, normalize_model(text, self.total_rows))
        return replace(
            state, num_iterations=first + grown, model=model, biases=self.objective.biases,
            history=tuple(history), finished=finished,
        )  # fmt: skip

    def _check_agreement(self) -> None:
        """Raise unless all ranks have the same state: model, biases and validation values.

        If every rank's hash is the mean of all hashes, they are equal.
        """
        content = json.dumps(self.state.as_json()).encode()
        own = np.frombuffer(hashlib.sha256(content).digest(), np.uint32).astype(np.int64)
        if (self.communicator.sum(own) != self.communicator.size * own).any():
            raise RankMismatchError(
                f"the ranks have different models after {self.state.num_iterations} iterations"
            )

    def _make_booster(self, first: int) -> lgb.Booster:
        parameters = self.learner.for_ranks(self.communicator.size, self.units)
        if first:
            self.train.dataset.set_init_score(self.scores)
        booster = lgb.Booster(parameters, self.train.dataset)
        if self.validation is not None:
            if first:
                self.validation.dataset.set_init_score(self.validation_scores)
            booster.add_valid(self.validation.dataset, "validation")
        return booster

    def _grow_tree(self, booster: lgb.Booster, check: NetworkCheck, iteration: int) -> bool:
        """Grow one tree; return whether it could not be split."""
        start, network_before = time.monotonic(), self.communicator.seconds
        gradient_seconds = 0.0

        def gradients(scores: np.ndarray, _: lgb.Dataset) -> tuple[np.ndarray, np.ndarray]:
            nonlocal gradient_seconds
            gradient_start = time.monotonic()
            # Biases are learned from the scores of the last iteration: before the first tree
            # there are none.
            if iteration > 0:
                self.objective.learn_biases(scores)
            gradient, hessian = self.objective.fill(scores)
            # The seed is set here because the first update resets other parameters, which draws
            # random numbers.
            if changes := self.learner.for_iteration(iteration):
                booster.reset_parameter(changes)
            self._zero_outside_bag(iteration, gradient, hessian)
            gradient_seconds = time.monotonic() - gradient_start
            return gradient, hessian

        empty = booster.update(fobj=gradients)
        check()
        network_seconds = self.communicator.seconds - network_before
        self.timings.gradient += gradient_seconds
        self.timings.network += network_seconds
        self.timings.trees += time.monotonic() - start - gradient_seconds - network_seconds
        return empty

    def _zero_outside_bag(self, iteration: int, gradient: np.ndarray, hessian: np.ndarray) -> None:
        inside = self.learner.bag.contains(self.train.keys, iteration)
        if inside is not None:
            outside = np.repeat(~inside, np.diff(self.train.data.pairs.query_rows))
            gradient[outside] = 0.0
            hessian[outside] = 0.0

    def _validate(self, booster: lgb.Booster) -> float | None:
        """Return the criterion over the validation rows of all ranks."""
        if self.criterion is None:
            return None
        start, totals = time.monotonic(), np.zeros(2, np.int64)
        if self.validation is not None:
            scores = _raw_scores(booster.eval_valid)
            totals = self.criterion.totals(scores, self.validation.data)
        value = self.criterion.value(self.communicator.sum(totals))
        self.timings.validation += time.monotonic() - start
        return value

    def _should_stop(self, history: list[float]) -> bool:
        if self.criterion is None:
            return False
        best = best_iteration(history, self.criterion.higher_is_better)
        return len(history) - best >= self.plan.early_stopping_round

    def _keep_scores(self, booster: lgb.Booster) -> None:
        """Copy the scores that the next segment starts from."""
        self.scores = _raw_scores(booster.eval_train).copy()
        if self.validation is not None:
            self.validation_scores = _raw_scores(booster.eval_valid).copy()


def _raw_scores(evaluate: Callable[..., object]) -> np.ndarray:
    """Return the current raw scores (float64), which LightGBM passes to metrics only.

    The array is LightGBM's buffer: it is valid until the next tree.
    """
    scores = np.zeros(0)

    def take(current: np.ndarray, _: lgb.Dataset) -> tuple[str, float, bool]:
        nonlocal scores
        scores = current
        return "scores", 0.0, True

    evaluate(take)
    return scores
