"""The choice of method and number of leaves by validation loss (docs/methods.md section 5.2).

Every trial grows a few trees on the same rows and bins. First the number of leaves is chosen with
the first candidate, then the candidates are compared at that number. A choice departs from the
default only if its loss is significantly lower. The winner is then grown to the end from where its
trial stopped. All ranks decide alike, because they compare sums over all of them.

The state with the choice is the first that can be resumed: a run that fails during the trials
repeats them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ulr.kernels.losses import UNITS
from ulr.training.checkpoint import TrainState
from ulr.training.loop import (
    AnyCommunicator,
    CheckpointCallback,
    IterationCallback,
    Timings,
    TrainingLoop,
    check_agreement,
    ignore,
)
from ulr.training.parameters import Learner
from ulr.training.plan import TrainPlan
from ulr.training.score_scale import loss_at_best_scale
from ulr.training.shard import RankShards
from ulr.training.stopping import is_lower, standard_error, trees_for

TRIAL_SHRINKAGE = 2.5  # trees of a trial times learning rate: at most 50 trees at 0.05
LEAVES_ERRORS = 2.0  # standard errors by which the loss with more leaves must be lower
METHOD_ERRORS = 2.5  # the same for another method: below 5% for all four comparisons together
NO_VALIDATION = "no held-out queries to choose by"
TOO_SHORT = "too few iterations for trials"
UNDECIDED = "no candidate is significantly better"
DECIDED = "lowest held-out loss"


@dataclass(frozen=True)
class _Trial:
    """A candidate after its first trees.

    shards: with the scores of its trees. losses: int64 per block, at the best scale of the scores.
    """

    candidate: int
    leaves: int
    state: TrainState
    shards: RankShards
    scale: float
    losses: np.ndarray


@dataclass
class Selection:
    """One rank's part in a training with several candidates."""

    communicator: AnyCommunicator
    plan: TrainPlan
    learner: Learner
    shards: RankShards
    timings: Timings = field(default_factory=Timings)

    def run(
        self,
        state: TrainState,
        on_checkpoint: CheckpointCallback = ignore,
        on_iteration: IterationCallback = ignore,
    ) -> TrainState:
        """Choose unless the state has a choice, then train to the end."""
        shards = self.shards
        if state.choice is None and self.plan.has_choice:
            state, shards = self._select(state, on_iteration)
            check_agreement(self.communicator, state)
            on_checkpoint(state)
        choice = state.choice or {"candidate": 0, "num_leaves": self.plan.leaf_choices[-1]}
        loop = self._loop(shards, choice["candidate"], choice["num_leaves"], state, self.plan)
        state = loop.run(on_checkpoint, on_iteration)
        self.timings.add(loop.timings)
        return state

    def _select(
        self, state: TrainState, on_iteration: IterationCallback
    ) -> tuple[TrainState, RankShards]:
        """Return the state after the trials, and the shards with the winner's scores."""
        length = self._trial_length()
        # A trial is validated, but never stopped early.
        stopping = length + 1 if self.plan.early_stopping_round else 0
        plan = replace(self.plan, num_iterations=length, early_stopping_round=stopping)

        def start(candidate: int, leaves: int) -> TrainingLoop:
            return self._loop(self.shards, candidate, leaves, state, plan)

        def run(candidate: int, leaves: int, loop: TrainingLoop | None = None) -> _Trial:
            loop = loop or start(candidate, leaves)
            return self._run_trial(candidate, leaves, loop, on_iteration)

        fewest, *more = self.plan.leaf_choices
        loop = start(0, fewest)
        if reason := _reason_not_to_choose(loop, length):
            leaves = fewest if loop.note else self.plan.leaf_choices[-1]
            return replace(state, choice=self._choice(0, leaves, [], reason)), self.shards
        by_leaves = [run(0, fewest, loop), *(run(0, leaves) for leaves in more)]
        best = _first_or_lower(by_leaves, LEAVES_ERRORS)
        others = [run(n, best.leaves) for n in range(1, len(self.plan.candidates))]
        winner = _first_or_lower([best, *others], METHOD_ERRORS)
        compared = [best, *(t for t in by_leaves if t is not best), *others]
        reason = UNDECIDED if winner is best else DECIDED
        choice = self._choice(winner.candidate, winner.leaves, compared, reason)
        return replace(winner.state, choice=choice, finished=False), winner.shards

    def _trial_length(self) -> int:
        """Return the trees of a trial: few enough that all trials cost less than one training."""
        trials = len(self.plan.candidates) + len(self.plan.leaf_choices) - 1
        rate = float(self.learner.lightgbm.get("learning_rate", 0.1))
        return min(trees_for(TRIAL_SHRINKAGE, rate), self.plan.num_iterations // trials)

    def _run_trial(
        self, candidate: int, leaves: int, loop: TrainingLoop, on_iteration: IterationCallback
    ) -> _Trial:
        end = loop.run(on_iteration=lambda iteration, _: on_iteration(iteration, None))
        self.timings.add(loop.timings)
        shards = replace(self.shards, train=replace(self.shards.train, scores=loop.scores))
        held_out = shards.validation
        if held_out is not None and loop.validation_scores is not None:
            shards = replace(shards, validation=replace(held_out, scores=loop.validation_scores))
        scale, losses = loss_at_best_scale(
            loop.validation_scores, held_out, self.learner.options.sigmoid, self.communicator.sum
        )
        return _Trial(candidate, leaves, end, shards, scale, losses)

    def _loop(
        self, shards: RankShards, candidate: int, leaves: int, state: TrainState, plan: TrainPlan
    ) -> TrainingLoop:
        learner = replace(self.learner, lightgbm={**self.learner.lightgbm, "num_leaves": leaves})
        train = shards.train
        data = replace(train.data, pairs=train.data.pairs.weighting(candidate))
        own = replace(shards, train=replace(train, data=data))
        return TrainingLoop(self.communicator, plan, learner, own, state)

    def _choice(
        self, candidate: int, leaves: int, trials: Sequence[_Trial], reason: str
    ) -> dict[str, Any]:
        """Return the choice and the losses behind it, as JSON values. trials: the default first."""
        name = self.plan.candidates[candidate]
        described = [_describe(t, trials[0], self.plan.candidates[t.candidate]) for t in trials]
        return {"candidate": candidate, "method": name, "num_leaves": leaves, "reason": reason,
                "trials": described}  # fmt: skip


def _reason_not_to_choose(loop: TrainingLoop, length: int) -> str:
    if loop.criterion is None:
        return NO_VALIDATION
    return loop.note or ("" if length else TOO_SHORT)


def _first_or_lower(trials: Sequence[_Trial], errors: float) -> _Trial:
    """Return the first trial, or the one with the lowest loss of those significantly lower."""
    lower = [t for t in trials if is_lower(t.losses, trials[0].losses, errors)]
    return min(lower, key=lambda t: int(t.losses.sum()), default=trials[0])


def _describe(trial: _Trial, default: _Trial, name: str) -> dict[str, Any]:
    """Return a trial's loss, and its difference from the default with standard error."""
    worse = (trial.losses - default.losses) / UNITS
    return {
        "method": name,
        "num_leaves": trial.leaves,
        "trees": trial.state.num_iterations,
        "scale": round(trial.scale, 6),
        "loss": float(trial.losses.sum() / UNITS),
        "difference": float(worse.sum()),
        "standard_error": standard_error(worse),
    }
