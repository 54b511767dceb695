"""One model for any number of workers, and for any history of checkpoints."""

from __future__ import annotations

import json
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pytest

from tests.support.clicked_pairs import DOCS, WIDTH, clicked_data, share
from tests.support.rendezvous import on_threads
from ulr.errors import UserError
from ulr.training.checkpoint import TrainState, state_from_json
from ulr.training.data import split_queries
from ulr.training.distributed.communicator import Communicator, PeerLost
from ulr.training.distributed.local_ranks import Member, train_local_ranks
from ulr.training.local import bins_of
from ulr.training.loop import TrainSpec, Worker
from ulr.training.objective import first_biases
from ulr.training.parameters import split_parameters
from ulr.training.shard import build_shard

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
    """The lines of every tree, by name."""
    blocks = [block.splitlines() for block in model.split("Tree=")[1:]]
    return [{k: v.split() for k, _, v in (row.partition("=") for row in b)} for b in blocks]


def spec_of(
    num_iterations=12,
    early_stopping_round=0,
    checkpoint_every=5,
    early_stopping_metric="pair_loss",
    **lightgbm,
):
    learner = split_parameters({**SETTINGS, **lightgbm}, "lambdarank")
    return TrainSpec(
        num_iterations, learner, early_stopping_metric, early_stopping_round, checkpoint_every
    )


def members_of(spec: TrainSpec, state: TrainState, ranks: int) -> list[Member]:
    bins = bins_of(TRAIN_DATA, spec.learner)
    parts = [[share(d, r, ranks) for d in (TRAIN_DATA, VALID_DATA)] for r in range(ranks)]
    return [Member(*(build_shard([p], bins, p.pairs.rows, state.model) for p in both))
            for both in parts]  # fmt: skip


def worker_of(mesh: Communicator, spec: TrainSpec, state: TrainState, sizes=None) -> Worker:
    bins = bins_of(TRAIN_DATA, spec.learner)
    parts = [share(d, mesh.rank, mesh.size) for d in (TRAIN_DATA, VALID_DATA)]
    train, valid = (build_shard([p], bins, p.pairs.rows, state.model) for p in parts)
    return Worker(mesh, spec, train, valid, state)


def train_on(workers: int, spec: TrainSpec, state: TrainState | None = None):
    """Final state of every worker, and the states saved by the first."""
    saved: list[TrainState] = []
    if workers == 1:
        state = state or TrainState()
        options = {"threads": 1, "save": saved.append, "tell": lambda number, value: None}
        alone = Communicator(0, [None], 1.0)
        end, _ = train_local_ranks(alone, members_of(spec, state, 2), spec, state, **options)
        return [end], saved

    def work(mesh: Communicator) -> TrainState:
        worker = worker_of(mesh, spec, state or TrainState())
        save = saved.append if mesh.rank == 0 else lambda state: None
        return worker.run(save, lambda number, value: None)

    return on_threads(workers, work), saved


def test_where_the_checkpoints_are_does_not_change_the_model():
    found = [train_on(1, spec_of(checkpoint_every=n, **SAMPLING))[0][0] for n in (0, 1, 5)]
    assert len({state.model for state in found}) == 1
    features = [tree["split_feature"] for tree in trees_of(found[0].model)]
    assert len(set(map(frozenset, features))) > 1  # drawn anew for every tree


@pytest.mark.parametrize("sampling", [{}, SAMPLING], ids=["all rows", "sampled"])
def test_one_two_and_three_workers_train_the_same_model_to_the_last_byte(sampling):
    spec = spec_of(**sampling)
    models = [state.model for n in (1, 2, 3) for state in train_on(n, spec)[0]]
    assert len(models) == 6
    assert len(set(models)) == 1
    assert lgb.Booster(model_str=models[0]).num_trees() == 12


@pytest.mark.parametrize("learned", [False, True], ids=["weights", "unbiased-lambdamart"])
def test_workers_agree_on_traffic_whose_sums_a_fixed_grid_could_not_hold(learned, monkeypatch):
    per_query = DATA.pairs.pairs // DATA.pairs.queries
    more = np.repeat(2.0 ** np.linspace(0, 40, DATA.pairs.queries), per_query).astype(np.float32)
    pairs = DATA.pairs._replace(u_ij=DATA.pairs.u_ij * more, u_ji=DATA.pairs.u_ji * more)
    heavy = replace(DATA, pairs=pairs)
    monkeypatch.setitem(globals(), "TRAIN_DATA", split_queries(heavy, ~VALID))
    start = TrainState(biases=first_biases(DOCS, 1)) if learned else None
    states = [s for n in (1, 2, 3) for s in train_on(n, spec_of(), start)[0]]
    assert len({state.model for state in states}) == 1


@pytest.mark.parametrize("seed", range(6))
def test_whatever_the_data_and_settings_one_two_and_five_workers_agree(seed, monkeypatch):
    rng = np.random.default_rng(seed)
    data = clicked_data(int(rng.integers(30, 120)), seed)
    x = data.features.copy()
    if seed % 3 == 0:
        x[rng.random(x.shape) < 0.8] = 0.0
    if seed % 3 == 1:
        x = np.round(x)
    data = replace(data, features=x)
    aside = np.arange(data.pairs.queries) % 2 == 0
    monkeypatch.setitem(globals(), "TRAIN_DATA", split_queries(data, ~aside))
    monkeypatch.setitem(globals(), "VALID_DATA", split_queries(data, aside))
    spec = spec_of(
        num_iterations=12, early_stopping_round=12, num_leaves=int(rng.integers(2, 40)),
        min_sum_hessian_in_leaf=float(10 ** rng.uniform(-3, 1)), max_bin=int(rng.choice([15, 255])),
        lambda_l1=float(seed % 2), lambda_l2=float(rng.random()), max_depth=[-1, 4][seed % 2],
        **(SAMPLING if seed % 2 else {}),
    )  # fmt: skip
    states = [train_on(n, spec)[0][-1] for n in (1, 2, 5)]
    assert len({(s.model, s.history) for s in states}) == 1


def test_learned_biases_are_sums_over_all_workers():
    spec = spec_of(num_iterations=6)
    start = TrainState(biases=first_biases(DOCS, 1))
    states = [s for n in (1, 2, 3) for s in train_on(n, spec, start)[0]]
    assert len({state.model for state in states}) == 1
    assert len({state.biases.t_minus.tobytes() for state in states}) == 1
    assert (states[0].biases.t_plus[1:] != 1).all()


@pytest.mark.parametrize("early_stopping_metric", ["pair_loss", "ndcg_at_3"])
def test_all_workers_stop_at_the_same_round_from_the_summed_value(early_stopping_metric):
    spec = spec_of(
        num_iterations=80,
        early_stopping_round=4,
        early_stopping_metric=early_stopping_metric,
        learning_rate=0.6,
    )
    states = [s for n in (1, 2, 3) for s in train_on(n, spec)[0]]
    assert len({(s.num_iterations, s.model, s.history) for s in states}) == 1
    assert len(states[0].history) == states[0].num_iterations < 80


def test_a_run_resumed_from_any_checkpoint_by_another_number_of_workers_ends_the_same():
    spec = spec_of(num_iterations=14, early_stopping_round=14, checkpoint_every=4, **SAMPLING)
    start = TrainState(biases=first_biases(DOCS, 2))
    (whole,), saved = train_on(1, spec, start)
    assert [s.num_iterations for s in saved] == [4, 8, 12, 14]
    for state, workers in zip(saved[:3], (2, 3, 1), strict=True):
        text = json.dumps(state.as_json())
        resumed = state_from_json(json.loads(text), first_biases(DOCS, 2))
        for end in train_on(workers, spec, resumed)[0]:
            assert end.model == whole.model
            assert end.history == whole.history
            assert end.biases.t_plus.tobytes() == whole.biases.t_plus.tobytes()


def test_a_bag_holds_whole_queries_and_changes_with_the_round():
    bag = split_parameters(
        {"bagging_fraction": 0.3, "bagging_freq": 2, "seed": 1}, "lambdarank"
    ).bag
    keys = np.random.default_rng(0).integers(0, 2**63, 20_000).astype(np.uint64)
    first, again, later = (bag.rows(keys, n) for n in (0, 1, 2))
    assert abs(first.mean() - 0.3) < 0.02
    assert (first == again).all()
    assert (first != later).any()
    assert split_parameters({"subsample": 0.5}, "lambdarank").bag.rows(keys, 0) is None


def test_a_worker_that_leaves_in_the_middle_of_a_tree_ends_the_training_of_all():
    class Gone(Exception):
        pass

    def work(mesh: Communicator) -> str:
        worker = worker_of(mesh, spec_of(), TrainState())

        def tell(number: int, value: float | None) -> None:
            if mesh.rank == 1 and number == 3:
                raise Gone("for a test")

        try:
            worker.run(lambda state: None, tell)
        except (PeerLost, Gone) as why:
            mesh.close(f"{type(why).__name__}: {why}")
            return str(why)
        return "done"

    told = on_threads(3, work)
    assert told[1] == "for a test"
    assert any("worker 1 stopped: Gone: for a test" in text for text in (told[0], told[2]))
    # The thread's network was given back: a single process trains as ever.
    assert train_on(1, spec_of())[0][0].num_iterations == 12


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"boosting_type": "dart"}, "lightgbm.boosting = 'dart'.*only 'gbdt'"),
        ({"data_sample_strategy": "goss"}, "only 'bagging'"),
        ({"extra_trees": True}, "only False"),
        ({"cegb_penalty_feature_lazy": [1.0, 2.0]}, "lightgbm.cegb_penalty_feature_lazy"),
        ({"cegb_penalty_feature_coupled": [1.0, 2.0]}, "lightgbm.cegb_penalty_feature_coupled"),
        ({"eta": 0.1, "learning_rate": 0.2}, "lightgbm.eta and lightgbm.learning_rate are two"),
        ({"subsample": 0.5, "sub_row": 0.6}, "lightgbm.subsample and lightgbm.sub_row are two"),
        ({"machines": "a:1"}, "lightgbm.machines is set by training"),
        ({"n_estimators": 5}, "lightgbm.num_iterations is set by training"),
    ],
)
def test_settings_that_would_break_the_promise_are_refused(setting, message):
    with pytest.raises(UserError, match=message):
        split_parameters(setting, "lambdarank")


def test_feature_rows_of_another_length_are_refused():
    spec = spec_of()
    bins = bins_of(TRAIN_DATA, spec.learner)
    with pytest.raises(UserError, match=f"{WIDTH} features"):
        build_shard([TRAIN_DATA], bins, TRAIN_DATA.pairs.rows - 1)
