"""One model for any number of workers, and for any sequence of checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest

from tests.support.clicked_pairs import DOCS, WIDTH, clicked_data, share
from tests.support.in_memory import sampled_bins
from tests.support.rendezvous import on_threads
from ulr.errors import UserError
from ulr.training import loop
from ulr.training.biases import initial_biases
from ulr.training.checkpoint import TrainState, state_from_json
from ulr.training.data import split_queries
from ulr.training.distributed.communicator import Communicator, single_rank
from ulr.training.distributed.local_ranks import train_local_ranks
from ulr.training.distributed.peer import PeerLost
from ulr.training.loop import RankMismatchError, TrainingLoop, ignore
from ulr.training.plan import TrainPlan
from ulr.training.shard import RankShards, build_shard

SETTINGS = {
    "num_leaves": 7, "learning_rate": 0.2, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 3.0,
    "num_threads": 1, "seed": 5,
}  # fmt: skip
SAMPLING = {"bagging_fraction": 0.6, "bagging_freq": 2, "feature_fraction": 0.6,
            "feature_fraction_bynode": 0.7, "min_data_in_leaf": 4}  # fmt: skip
DATA = clicked_data(90)
VALID = np.arange(90) % 3 == 1
TRAIN_DATA, VALID_DATA = split_queries(DATA, ~VALID), split_queries(DATA, VALID)


def trees_of(model: str) -> list[dict[str, list[str]]]:
    """Return the fields of every tree, by name."""
    blocks = [block.splitlines() for block in model.split("Tree=")[1:]]
    return [{k: v.split() for k, _, v in (row.partition("=") for row in b)} for b in blocks]


def plan_of(
    num_iterations=12,
    early_stopping_round=0,
    checkpoint_every=5,
    early_stopping_metric="pair_loss",
    **lightgbm,
):
    return TrainPlan(
        "joint",
        num_iterations,
        {**SETTINGS, **lightgbm},
        early_stopping_metric=early_stopping_metric,
        early_stopping_round=early_stopping_round,
        checkpoint_every=checkpoint_every,
    )


def shards_of(rank: int, ranks: int, plan: TrainPlan, state: TrainState) -> RankShards:
    bins = sampled_bins(TRAIN_DATA, plan.learner())
    parts = [share(data, rank, ranks) for data in (TRAIN_DATA, VALID_DATA)]
    return RankShards(*(build_shard([p], bins, p.pairs.rows, state.model) for p in parts))


def loop_of(communicator: Communicator, plan: TrainPlan, state: TrainState) -> TrainingLoop:
    shards = shards_of(communicator.rank, communicator.size, plan, state)
    return TrainingLoop(communicator, plan, plan.learner(), shards, state)


def train_on(
    workers: int,
    plan: TrainPlan,
    state: TrainState | None = None,
    saved: list[TrainState] | None = None,
):
    """Return the final state of every worker, and the checkpoints of the first one."""
    saved = [] if saved is None else saved
    start = state or TrainState()
    if workers == 1:
        shards = [shards_of(rank, 2, plan, start) for rank in range(2)]
        end, _ = train_local_ranks(
            single_rank(), shards, plan, plan.learner(), start,
            threads=1, on_checkpoint=saved.append,
        )  # fmt: skip
        return [end], saved

    def work(communicator: Communicator) -> TrainState:
        on_checkpoint = saved.append if communicator.rank == 0 else ignore
        return loop_of(communicator, plan, start).run(on_checkpoint)

    return on_threads(workers, work), saved


def test_the_model_does_not_depend_on_where_the_checkpoints_are():
    states = [train_on(1, plan_of(checkpoint_every=n, **SAMPLING))[0][0] for n in (0, 1, 5)]
    assert len({state.model for state in states}) == 1
    features = [tree["split_feature"] for tree in trees_of(states[0].model)]
    assert len(set(map(frozenset, features))) > 1  # sampled for every tree


@pytest.mark.parametrize("sampling", [{}, SAMPLING], ids=["all rows", "sampled"])
def test_one_two_and_three_workers_train_byte_identical_models(sampling):
    plan = plan_of(**sampling)
    models = [state.model for n in (1, 2, 3) for state in train_on(n, plan)[0]]
    assert len(models) == 6
    assert len(set(models)) == 1
    assert lgb.Booster(model_str=models[0]).num_trees() == 12


@pytest.mark.parametrize("learned", [False, True], ids=["weights", "unbiased-lambdamart"])
def test_workers_agree_if_sums_are_too_large_for_the_finest_grid(learned, monkeypatch):
    per_query = DATA.pairs.pairs // DATA.pairs.queries
    more = np.repeat(2.0 ** np.linspace(0, 40, DATA.pairs.queries), per_query).astype(np.float32)
    pairs = DATA.pairs._replace(u_ij=DATA.pairs.u_ij * more, u_ji=DATA.pairs.u_ji * more)
    heavy = replace(DATA, pairs=pairs)
    monkeypatch.setitem(globals(), "TRAIN_DATA", split_queries(heavy, ~VALID))
    start = TrainState(biases=initial_biases(DOCS, 1)) if learned else None
    states = [s for n in (1, 2, 3) for s in train_on(n, plan_of(), start)[0]]
    assert len({state.model for state in states}) == 1


@pytest.mark.parametrize("seed", range(6))
def test_one_two_and_five_workers_agree_for_random_data_and_settings(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    data = clicked_data(int(rng.integers(30, 120)), seed)
    x = data.features.copy()
    if seed % 3 == 0:
        x[rng.random(x.shape) < 0.8] = 0.0
    if seed % 3 == 1:
        x = np.round(x)
    data = replace(data, features=x)
    held_out = np.arange(data.pairs.queries) % 2 == 0
    monkeypatch.setitem(globals(), "TRAIN_DATA", split_queries(data, ~held_out))
    monkeypatch.setitem(globals(), "VALID_DATA", split_queries(data, held_out))
    plan = plan_of(
        num_iterations=12, early_stopping_round=12, num_leaves=int(rng.integers(2, 40)),
        min_sum_hessian_in_leaf=float(10 ** rng.uniform(-3, 1)), max_bin=int(rng.choice([15, 255])),
        lambda_l1=float(seed % 2), lambda_l2=float(rng.random()), max_depth=[-1, 4][seed % 2],
        **(SAMPLING if seed % 2 else {}),
    )  # fmt: skip
    states = [train_on(n, plan)[0][-1] for n in (1, 2, 5)]
    assert len({(s.model, s.history) for s in states}) == 1


def test_biases_are_learned_from_sums_over_all_workers():
    plan = plan_of(num_iterations=6)
    start = TrainState(biases=initial_biases(DOCS, 1))
    states = [s for n in (1, 2, 3) for s in train_on(n, plan, start)[0]]
    assert len({state.model for state in states}) == 1
    assert len({state.biases.t_minus.tobytes() for state in states}) == 1
    assert (states[0].biases.t_plus[1:] != 1).all()


def test_frozen_biases_stay_those_of_the_last_round_on_any_workers_and_after_a_restart():
    start = TrainState(biases=initial_biases(DOCS, 0.5))
    plan = replace(plan_of(num_iterations=12, checkpoint_every=2), bias_rounds=3)
    (short,), _ = train_on(1, replace(plan, num_iterations=4), start)  # learned before trees 2 to 4
    (longer,), _ = train_on(1, replace(plan, bias_rounds=0), start)
    (end,), saved = train_on(1, plan, start)
    assert end.biases.t_minus.tobytes() == short.biases.t_minus.tobytes()
    assert end.biases.t_minus.tobytes() != longer.biases.t_minus.tobytes()
    for state, workers in ((None, 2), (None, 3), (saved[0], 3), (saved[3], 2)):
        for other in train_on(workers, plan, state or start)[0]:
            assert other.model == end.model
            assert other.biases.t_plus.tobytes() == end.biases.t_plus.tobytes()


@pytest.mark.parametrize("early_stopping_metric", ["pair_loss", "ndcg_at_3"])
def test_all_workers_stop_at_the_same_iteration(early_stopping_metric, monkeypatch):
    monkeypatch.setattr(loop, "MIN_QUERIES", 1)  # the few queries here decide
    plan = plan_of(
        num_iterations=80,
        early_stopping_round=4,
        early_stopping_metric=early_stopping_metric,
        learning_rate=0.6,
    )
    states = [s for n in (1, 2, 3) for s in train_on(n, plan)[0]]
    assert len({(s.num_iterations, s.model, s.history) for s in states}) == 1
    assert len(states[0].history) == states[0].num_iterations < 80
    assert states[0].note == ""


def test_resuming_from_any_checkpoint_with_any_number_of_workers_gives_the_same_model():
    plan = plan_of(num_iterations=14, early_stopping_round=14, checkpoint_every=4, **SAMPLING)
    start = TrainState(biases=initial_biases(DOCS, 2))
    (uninterrupted,), saved = train_on(1, plan, start)
    assert [s.num_iterations for s in saved] == [4, 8, 12, 14]
    for state, workers in zip(saved[:3], (2, 3, 1), strict=True):
        text = json.dumps(state.as_json())
        resumed = state_from_json(json.loads(text), initial_biases(DOCS, 2))
        for end in train_on(workers, plan, resumed)[0]:
            assert end.model == uninterrupted.model
            assert end.history == uninterrupted.history
            assert end.biases.t_plus.tobytes() == uninterrupted.biases.t_plus.tobytes()


def test_an_error_of_one_worker_in_the_middle_of_training_ends_all_others():
    class Failure(Exception):
        pass

    def work(communicator: Communicator) -> str:
        def fail(iteration: int, value: float | None) -> None:
            if communicator.rank == 1 and iteration == 3:
                raise Failure("for a test")

        try:
            with communicator:
                loop_of(communicator, plan_of(), TrainState()).run(on_iteration=fail)
        except (PeerLost, Failure) as error:
            return str(error)
        return "done"

    errors = on_threads(3, work)
    assert errors[1] == "for a test"
    assert any("worker 1 stopped: Failure: for a test" in text for text in (errors[0], errors[2]))
    # LightGBM's network was freed: training in one process works.
    assert train_on(1, plan_of())[0][0].num_iterations == 12


@pytest.mark.parametrize("difference", [-1, 1])
def test_an_unexpected_number_of_rows_is_rejected(difference):
    bins, rows = sampled_bins(TRAIN_DATA, plan_of().learner()), TRAIN_DATA.pairs.rows
    expected = rows + difference
    with pytest.raises(UserError, match=f"received {rows} rows, expected {expected}"):
        build_shard([TRAIN_DATA], bins, expected)


def test_an_unexpected_number_of_features_is_rejected():
    bins = sampled_bins(TRAIN_DATA, plan_of().learner())
    narrow = replace(TRAIN_DATA, features=TRAIN_DATA.features[:, 1:])
    with pytest.raises(UserError, match=f"{WIDTH - 1} values where another row has {WIDTH}"):
        build_shard([narrow], bins, narrow.pairs.rows)


@pytest.mark.parametrize("workers", [1, 2])
def test_ranks_with_different_models_fail_before_a_checkpoint_is_saved(workers, monkeypatch):
    grow = TrainingLoop._grow_segment

    def grow_another_model(loop: TrainingLoop, *args: object) -> TrainState:
        state = grow(loop, *args)
        damaged = loop.communicator.rank == 1 and state.num_iterations == 10
        return replace(state, model=state.model.replace("1", "2", 1)) if damaged else state

    monkeypatch.setattr(TrainingLoop, "_grow_segment", grow_another_model)
    saved: list[TrainState] = []
    with pytest.raises((RankMismatchError, PeerLost), match="different models after 10 iterations"):
        train_on(workers, plan_of(), saved=saved)
    assert [state.num_iterations for state in saved] == [5]
