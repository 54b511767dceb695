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
from ulr.training.biases import PositionLogits
from ulr.training.checkpoint import TrainState
from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.lightgbm_network import open_network, units_per_row
from ulr.training.distributed.local_communicator import LocalCommunicator
from ulr.training.listwise import ListObjective
from ulr.training.objective import PairObjective
from ulr.training.parameters import Learner
from ulr.training.plan import TrainPlan
from ulr.training.shard import RankShards
from ulr.training.stopping import (
    FALLBACK_SHRINKAGE,
    MIN_QUERIES,
    as_losses,
    lowest_iteration,
    trees_for,
)
from ulr.training.validation import (
    BLOCKS,
    Criterion,
    block_of,
    effective_queries,
    make_criterion,
)

CheckpointCallback = Callable[[TrainState], None]
# Called with the iteration, from 1, and its validation value, if there is one.
IterationCallback = Callable[[int, float | None], None]
NetworkCheck = Callable[[], None]
AnyCommunicator = Communicator | LocalCommunicator


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

    def add(self, other: Timings) -> None:
        """Add the seconds of another loop."""
        for name, seconds in vars(other).items():
            setattr(self, name, getattr(self, name) + seconds)


def check_agreement(communicator: AnyCommunicator, state: TrainState) -> None:
    """Raise unless all ranks have the same state: model, biases and validation values.

    If every rank's hash is the mean of all hashes, they are equal.
    """
    content = json.dumps(state.as_json()).encode()
    own = np.frombuffer(hashlib.sha256(content).digest(), np.uint32).astype(np.int64)
    if (communicator.sum(own) != communicator.size * own).any():
        raise RankMismatchError(
            f"the ranks have different models after {state.num_iterations} iterations"
        )


class TrainingLoop:
    """One rank with its shards; `run` takes it from one state of training to the last."""

    def __init__(
        self,
        communicator: AnyCommunicator,
        plan: TrainPlan,
        learner: Learner,
        shards: RankShards,
        state: TrainState,
    ) -> None:
        self.communicator, self.plan, self.learner, self.state = communicator, plan, learner, state
        self.train = shards.train
        self.validation = shards.validation if plan.validates else None
        self.objective = self._make_objective()
        self.timings = Timings()
        self.scores = self.train.scores
        self.validation_scores = None if self.validation is None else self.validation.scores
        self.total_rows = int(communicator.sum(np.array([self.train.rows], np.int64))[0])
        self.units = units_per_row(self.total_rows)
        self.criterion, self.note = self._make_criterion()
        self.limit = plan.num_iterations
        if self.note:
            self.limit = min(self._fallback(), self.limit)

    def _make_objective(self) -> PairObjective | ListObjective:
        pairs, biases = self.train.data.pairs, self.state.biases
        if isinstance(biases, PositionLogits):
            return ListObjective(pairs, biases, self.communicator.sum)
        return PairObjective(pairs, self.learner.options, biases, self.communicator.sum)

    def _make_criterion(self) -> tuple[Criterion | None, str]:
        """Return the criterion if any rank has validation rows, and a reason not to rely on it."""
        counts, data = np.zeros(2, np.int64), None
        if self.validation is not None:
            data = self.validation.data
            counts[:] = self.validation.rows, (data.labels > 0).sum()
        rows, positive = self.communicator.sum(counts)
        if not rows:
            return None, ""
        queries = effective_queries(data.pairs if data else None, self.communicator.sum)
        criterion = make_criterion(
            self.plan.early_stopping_metric, self.learner.options.sigmoid, positive=int(positive)
        )
        if queries >= MIN_QUERIES:
            return criterion, ""
        return criterion, (
            f"the held-out clicks are worth {queries:.1f} queries, fewer than {MIN_QUERIES}: no "
            f"early stopping, {self._fallback()} trees at most; raise train.validation_fraction"
        )

    def _fallback(self) -> int:
        """Return the number of trees if validation decides nothing."""
        rate = float(self.learner.lightgbm.get("learning_rate", 0.1))
        return trees_for(FALLBACK_SHRINKAGE, rate)

    def run(
        self, on_checkpoint: CheckpointCallback = ignore, on_iteration: IterationCallback = ignore
    ) -> TrainState:
        """Train to the end; `on_checkpoint` is called with every state that can be resumed."""
        with open_network(self.communicator, self.train.rows, self.units) as check:
            while not self.state.finished:
                self.state = self._grow_segment(check, on_iteration)
                # Before a state that is wrong could be saved.
                check_agreement(self.communicator, self.state)
                on_checkpoint(self.state)
        return self.state

    def _grow_segment(self, check: NetworkCheck, on_iteration: IterationCallback) -> TrainState:
        """Grow the trees up to the next checkpoint."""
        first, state = self.state.num_iterations, self.state
        length = self.plan.checkpoint_every or self.plan.num_iterations
        last = min(self.limit, (first // length + 1) * length)
        booster = self._make_booster(first)
        history, blocks = list(state.history), list(state.blocks)
        grown, finished = 0, last >= self.limit
        for iteration in range(first, last):
            if self._grow_tree(booster, check, iteration):
                finished = True  # no leaf can be split any more
                break
            grown += 1
            value, totals = self._validate(booster)
            if value is not None:
                history.append(value)
                blocks.append(tuple(totals[:-1].tolist()))
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
            history=tuple(history), blocks=tuple(blocks), note=self.note, finished=finished,
        )  # fmt: skip

    def _make_booster(self, first: int) -> lgb.Booster:
        parameters = self.learner.for_ranks(self.communicator.size, self.units)
        # Another loop may have left initial scores in the datasets.
        if first or self.train.dataset.get_init_score() is not None:
            self.train.dataset.set_init_score(self.scores)
        booster = lgb.Booster(parameters, self.train.dataset)
        if self.validation is not None:
            if first or self.validation.dataset.get_init_score() is not None:
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
            # Biases are learned from the scores of the last iteration.
            if self.plan.learns_biases(iteration):
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

    def _validate(self, booster: lgb.Booster) -> tuple[float | None, np.ndarray]:
        """Return the criterion over the validation rows of all ranks, and its totals."""
        start, totals = time.monotonic(), np.zeros(BLOCKS + 1, np.int64)
        if self.criterion is None:
            return None, totals
        if self.validation is not None:
            scores, block = _raw_scores(booster.eval_valid), block_of(self.validation.keys)
            totals = self.criterion.totals(scores, self.validation.data, block)
        totals = self.communicator.sum(totals)
        self.timings.validation += time.monotonic() - start
        return self.criterion.value(totals), totals

    def _should_stop(self, history: list[float]) -> bool:
        if self.criterion is None or self.note:
            return False
        losses = as_losses(history, self.criterion.higher_is_better)
        return len(losses) - lowest_iteration(losses) >= self.plan.early_stopping_round

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
