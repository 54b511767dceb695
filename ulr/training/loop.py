"""The training loop of one rank.

Every rank runs the same loop on its own rows. What they must agree on comes out of sums over
all of them: histograms inside LightGBM, the losses behind t+ and t-, the validation totals. Sums
are exact (gradients on a grid, integers elsewhere), so the model does not depend on the number
of ranks, from two on. Trees grow in segments, one Booster each, that end where a checkpoint is due.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import lightgbm as lgb
import numpy as np

from ulr.kernels.threads import KERNELS
from ulr.models.text import join_models, normalize_model
from ulr.training.checkpoint import TrainState
from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.lightgbm_network import Network, open_network
from ulr.training.objective import PairObjective
from ulr.training.parameters import Learner
from ulr.training.shard import TrainShard
from ulr.training.validation import Criterion, best_round, make_criterion

Save = Callable[[TrainState], None]
IterationCallback = Callable[[int, float | None], None]


@dataclass(frozen=True)
class TrainSpec:
    """The same for all workers. patience 0: all rounds are grown, without validation."""

    num_iterations: int
    learner: Learner
    early_stopping_metric: str = "pair_loss"
    early_stopping_round: int = 0
    checkpoint_every: int = 0


@dataclass
class Timings:
    """Seconds of one worker."""

    gradient: float = 0.0
    trees: float = 0.0
    network: float = 0.0
    validation: float = 0.0


class Worker:
    """A worker with its shards, from one state of training to the next."""

    def __init__(
        self,
        mesh: Communicator,
        spec: TrainSpec,
        train: TrainShard,
        validation: TrainShard | None,
        state: TrainState,
    ) -> None:
        self.mesh, self.spec, self.train, self.state = mesh, spec, train, state
        self.validation = validation if spec.early_stopping_round > 0 else None
        self.objective = PairObjective(
            train.data.pairs, spec.learner.options, state.biases, mesh.sum
        )
        self.timings = Timings()
        self.scores = train.scores
        self.validation_scores = validation.scores if self.validation is not None else None
        self.total_rows = int(mesh.sum(np.array([train.rows], np.int64))[0])
        self.criterion = self._criterion()

    def _criterion(self) -> Criterion | None:
        """All workers or none: those without validation rows add nothing to the totals."""
        data = self.validation.data if self.validation is not None else None
        rows = data.pairs.rows if data is not None else 0
        positive = int((data.labels > 0).sum()) if data is not None else 0
        rows, positive = self.mesh.sum(np.array([rows, positive], np.int64))
        if not rows or self.spec.early_stopping_round <= 0:
            return None
        sigmoid = self.spec.learner.options.sigmoid
        return make_criterion(
            self.spec.early_stopping_metric, data, sigmoid, positive=int(positive)
        )

    def run(self, save: Save, tell: IterationCallback) -> TrainState:
        """Train to the end; `save` is called with every state that a run may resume from."""
        with open_network(self.mesh, self.train.rows, self.total_rows) as network:
            while not self.state.finished:
                self.state = self._segment(network, tell)
                save(self.state)
        return self.state

    def _segment(self, network: Network, tell: IterationCallback) -> TrainState:
        """The trees up to the next checkpoint."""
        first, state = self.state.num_iterations, self.state
        length = self.spec.checkpoint_every or self.spec.num_iterations
        last = min(self.spec.num_iterations, (first // length + 1) * length)
        booster = self._booster(first, network.units)
        history, grown, finished = list(state.history), 0, last >= self.spec.num_iterations
        for number in range(first, last):
            if self._grow(booster, network, number):
                finished = True  # no leaf can be split any more
                break
            grown += 1
            value = self._validate(booster)
            if value is not None:
                history.append(value)
            tell(number + 1, value)
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

    def _booster(self, first: int, units: int) -> lgb.Booster:
        settings = self.spec.learner.for_ranks(self.mesh.size, units)
        if first:
            self.train.dataset.set_init_score(self.scores)
        booster = lgb.Booster(settings, self.train.dataset)
        if self.validation is not None:
            if first:
                self.validation.dataset.set_init_score(self.validation_scores)
            booster.add_valid(self.validation.dataset, "validation")
        return booster

    def _grow(self, booster: lgb.Booster, network: Network, number: int) -> bool:
        """One tree. True if it could not be split."""
        start, network_before, spent = time.monotonic(), self.mesh.seconds, 0.0

        def gradients(scores: np.ndarray, _: lgb.Dataset) -> tuple[np.ndarray, np.ndarray]:
            nonlocal spent
            begun = time.monotonic()
            # Scores of the last round: what biases are learned from, except before the first tree.
            if number > 0:
                self.objective.learn_biases(scores)
            gradient, hessian = self.objective.fill(scores)
            # Here, because the first update resets other settings just before, which would draw.
            if changes := self.spec.learner.for_round(number):
                booster.reset_parameter(changes)
            self._empty_outside_bag(number, gradient, hessian)
            spent = time.monotonic() - begun
            return gradient, hessian

        empty = booster.update(fobj=gradients)
        network.check()
        waited = self.mesh.seconds - network_before
        self.timings.gradient += spent
        self.timings.network += waited
        self.timings.trees += time.monotonic() - start - spent - waited
        return empty

    def _empty_outside_bag(self, number: int, gradient: np.ndarray, hessian: np.ndarray) -> None:
        inside = self.spec.learner.bag.rows(self.train.keys, number)
        if inside is not None:
            outside = np.repeat(~inside, np.diff(self.train.data.pairs.query_rows))
            gradient[outside] = 0.0
            hessian[outside] = 0.0

    def _validate(self, booster: lgb.Booster) -> float | None:
        """The criterion over the validation rows of all workers."""
        criterion = self.criterion
        if criterion is None:
            return None
        start, totals = time.monotonic(), np.zeros(2, np.int64)

        def measure(scores: np.ndarray, _: lgb.Dataset) -> tuple[str, float, bool]:
            nonlocal totals
            with KERNELS:
                totals = criterion.totals(scores)
            return criterion.name, 0.0, criterion.higher_is_better

        if self.validation is not None:
            booster.eval_valid(measure)
        value = criterion.value(self.mesh.sum(totals))
        self.timings.validation += time.monotonic() - start
        return value

    def _should_stop(self, history: list[float]) -> bool:
        if self.criterion is None:
            return False
        best = best_round(history, self.criterion.higher_is_better)
        return len(history) - best >= self.spec.early_stopping_round

    def _keep_scores(self, booster: lgb.Booster) -> None:
        """Where the next segment goes on from."""
        kept: list[np.ndarray] = []

        def take(scores: np.ndarray, _: lgb.Dataset) -> tuple[str, float, bool]:
            kept.append(np.array(scores))
            return "scores", 0.0, True

        booster.eval_train(take)
        self.scores = kept.pop()
        if self.validation is not None:
            booster.eval_valid(take)
            self.validation_scores = kept.pop()
