"""The choice of candidate and leaves: the same on any number of workers, significant or default."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.support.clicked_pairs import DOCS, clicked_data, share, with_even_queries
from tests.support.in_memory import sampled_bins, train_ranker
from tests.support.rendezvous import on_threads
from ulr.kernels.layout import PairLists
from ulr.kernels.pair_loss import pair_losses
from ulr.pairs.weightings import CANDIDATES
from ulr.training import loop
from ulr.training.checkpoint import TrainState, state_from_json
from ulr.training.data import RankingData, split_queries
from ulr.training.distributed.communicator import Communicator, single_rank
from ulr.training.distributed.local_ranks import train_local_ranks
from ulr.training.plan import TrainPlan
from ulr.training.score_scale import loss_at_best_scale
from ulr.training.selection import Selection
from ulr.training.shard import RankShards, build_shard
from ulr.training.validation import BLOCKS, block_of

LIGHTGBM = {"num_leaves": "auto", "learning_rate": 0.1, "min_data_in_leaf": 1, "verbosity": -1,
            "min_sum_hessian_in_leaf": 0.1, "num_threads": 1, "seed": 3}  # fmt: skip
TRIALS = 6  # two numbers of leaves, then four other candidates
PLAN = TrainPlan("auto", 36, LIGHTGBM, early_stopping_round=36, checkpoint_every=5)


def with_candidates(pairs: PairLists, **columns) -> PairLists:
    """The pairs with weights of every candidate: the given ones, or those of the pairs."""
    own = [columns.get(c.name, (pairs.u_ij, pairs.u_ji)) for c in CANDIDATES]
    u_ij, u_ji = (np.stack(weights, axis=1) for weights in zip(*own, strict=True))
    return pairs._replace(u_ij=u_ij, u_ji=u_ji)


DATA = with_even_queries(clicked_data(400, seed=5))
HELD_OUT = np.arange(400) % 4 == 0
TRAIN, VALIDATION = split_queries(DATA, ~HELD_OUT), split_queries(DATA, HELD_OUT)
NOISE = np.random.default_rng(6).random((2, TRAIN.pairs.pairs)).astype(np.float32)


def candidates(**columns) -> RankingData:
    return replace(TRAIN, pairs=with_candidates(TRAIN.pairs, **columns))


MIXED = candidates(robust=NOISE, pns=NOISE[::-1], robust_plus=NOISE, joint_plain=NOISE[::-1])


def shards_of(rank: int, ranks: int, model: str = "") -> RankShards:
    bins = sampled_bins(MIXED, PLAN.learner())
    parts = [share(data, rank, ranks) for data in (MIXED, VALIDATION)]
    return RankShards(*(build_shard([p], bins, p.pairs.rows, model) for p in parts))


def train_on(workers: int, state: TrainState, saved: list[TrainState] | None = None):
    saved = [] if saved is None else saved
    if workers == 1:
        shards = [shards_of(rank, 2, state.model) for rank in range(2)]
        end, _ = train_local_ranks(single_rank(), shards, PLAN, PLAN.learner(), state, threads=1,
                                   on_checkpoint=saved.append)  # fmt: skip
        return [end]

    def work(communicator: Communicator) -> TrainState:
        shards = shards_of(communicator.rank, communicator.size, state.model)
        return Selection(communicator, PLAN, PLAN.learner(), shards).run(state)

    return on_threads(workers, work)


def test_all_numbers_of_workers_make_the_same_choice_and_model():
    saved: list[TrainState] = []
    states = [
        *train_on(1, TrainState(), saved),
        *train_on(2, TrainState()),
        *train_on(3, TrainState()),
    ]
    assert len({json.dumps(state.as_json()) for state in states}) == 1
    choice = states[0].choice
    assert choice["method"] == "joint with precision"
    assert len(choice["trials"]) == TRIALS
    # The first state that can be resumed has the choice and the trees of the winner's trial.
    assert saved[0].choice == choice
    assert saved[0].num_iterations == 36 // TRIALS
    resumed = state_from_json(json.loads(json.dumps(saved[0].as_json())), None)
    for workers in (1, 2):
        assert train_on(workers, resumed)[0].model == states[0].model


def test_a_candidate_wins_only_if_its_loss_is_significantly_lower():
    plan = replace(PLAN, lightgbm={**LIGHTGBM, "num_leaves": 7})
    # The default learns from noise, `robust` from the clicks that the validation loss counts.
    data = candidates(joint=NOISE, pns=NOISE, robust_plus=NOISE, joint_plain=NOISE)
    ranker = train_ranker(data, plan, validation=VALIDATION)
    assert ranker.choice["method"] == "robust with precision"
    assert ranker.choice["reason"] == "lowest held-out loss"
    losses = {trial["method"]: trial for trial in ranker.choice["trials"]}
    won, default = losses["robust with precision"], losses["joint with precision"]
    assert won["difference"] < -2.5 * won["standard_error"]
    assert won["difference"] == pytest.approx(won["loss"] - default["loss"])
    # Equal candidates leave the default.
    same = train_ranker(candidates(), plan, validation=VALIDATION)
    assert same.choice["method"] == "joint with precision"
    assert same.choice["reason"] == "no candidate is significantly better"


def test_the_loss_is_that_of_the_best_scale():
    """The minimum is found from scores that are four times too large or too small."""
    shard = build_shard(
        [VALIDATION], sampled_bins(VALIDATION, PLAN.learner()), VALIDATION.pairs.rows
    )
    scores = np.random.default_rng(8).normal(size=shard.rows) + shard.data.labels
    found = [loss_at_best_scale(factor * scores, shard, 1.0, lambda sums: sums)
             for factor in (1.0, 4.0, 0.25)]  # fmt: skip
    best = found[0][0]
    for factor, (scale, losses) in zip((1.0, 4.0, 0.25), found, strict=True):
        assert scale * factor == pytest.approx(best, rel=1e-3)
        assert losses.sum() == pytest.approx(found[0][1].sum(), rel=1e-4)
        for other in (0.9 * best, 1.1 * best):
            block = block_of(shard.keys)
            worse = pair_losses(other * scores, shard.data.pairs, block, BLOCKS)[0]
            assert losses.sum() < worse.sum()


def test_more_leaves_are_chosen_where_they_reduce_the_loss():
    """Relevance is an interaction of features that a tree of few leaves can hardly represent."""
    rng = np.random.default_rng(7)
    few = split_queries(TRAIN, np.arange(TRAIN.pairs.queries) < 12)
    few = replace(few, pairs=with_candidates(few.pairs))
    assert train_ranker(few, PLAN, validation=VALIDATION).choice["num_leaves"] == 7
    x = rng.normal(size=DATA.features.shape).astype(np.float32)
    better = np.sign(x[:, 0]) * np.sign(x[:, 1]) * np.sign(x[:, 2]) * (1 + np.sign(x[:, 3]))
    pairs = DATA.pairs
    first = pairs.query_rows[:-1].repeat(DOCS * (DOCS - 1) // 2)
    gap = better[first + pairs.i] - better[first + pairs.j]
    u_ij, u_ji = (np.maximum(side * gap, 0).astype(np.float32) for side in (1, -1))
    data = replace(DATA, features=x, pairs=pairs._replace(u_ij=u_ij, u_ji=u_ji))
    train, held_out = split_queries(data, ~HELD_OUT), split_queries(data, HELD_OUT)
    train = replace(train, pairs=with_candidates(train.pairs))
    plan = replace(PLAN, num_iterations=120)
    many = train_ranker(train, plan, validation=held_out)
    assert many.choice["num_leaves"] == 31


def test_a_number_of_leaves_that_is_set_is_not_chosen():
    plan = replace(PLAN, lightgbm={**LIGHTGBM, "num_leaves": 12})
    ranker = train_ranker(candidates(), plan, validation=VALIDATION)
    assert {trial["num_leaves"] for trial in ranker.choice["trials"]} == {12}
    single = TrainPlan("robust", 30, LIGHTGBM)
    assert single.leaf_choices == (31,)
    assert not single.has_choice


def test_few_held_out_queries_decide_nothing(monkeypatch):
    monkeypatch.setattr(loop, "FALLBACK_SHRINKAGE", 1.2)  # at a learning rate of 0.1
    few = split_queries(VALIDATION, np.arange(VALIDATION.pairs.queries) < 19)
    ranker = train_ranker(candidates(), PLAN, validation=few)
    assert ranker.best_iteration == 12
    assert ranker.choice == {"candidate": 0, "method": "joint with precision", "num_leaves": 7,
                             "trials": [], "reason": ranker.note}  # fmt: skip
    assert ranker.warnings == [ranker.note]
    assert "are worth 19.0 queries, fewer than 20" in ranker.note


def test_without_validation_there_is_no_trial():
    ranker = train_ranker(candidates(), replace(PLAN, num_iterations=3))
    assert ranker.choice["reason"] == "no held-out queries to choose by"
    assert ranker.choice["num_leaves"] == 31
    short = train_ranker(candidates(), replace(PLAN, num_iterations=5), validation=VALIDATION)
    assert short.choice["reason"] == "too few iterations for trials"


def test_the_trials_cost_at_most_one_training():
    calls = []
    train_ranker(MIXED, PLAN, validation=VALIDATION,
                 on_iteration=lambda iteration, value: calls.append(value))  # fmt: skip
    assert len(calls) <= 2 * PLAN.num_iterations
    trials = [value for value in calls if value is None]
    assert len(trials) == TRIALS * (PLAN.num_iterations // TRIALS)
