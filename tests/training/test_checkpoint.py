from __future__ import annotations

import hashlib
import json

import lightgbm as lgb
import numpy as np
import pytest

from ulr.training.biases import Biases, initial_biases
from ulr.training.checkpoint import Checkpoints, TrainState, state_from_json


def test_a_checkpoint_of_other_inputs_is_not_resumed(tmp_path):
    own = Checkpoints(str(tmp_path), "method=joint", "abc")
    other = Checkpoints(str(tmp_path), "method=joint", "def")
    state = TrainState(num_iterations=5, history=(0.1, 1 / 3))
    own.save(state)
    assert own.load(None) == (state, "")
    assert other.load(None) == (TrainState(), "")
    other.delete(keep_own=True)
    assert own.load(None) == (TrainState(), "")


def test_the_own_checkpoint_is_deleted_only_if_it_is_not_kept(tmp_path):
    own = Checkpoints(str(tmp_path), "method=joint", "abc")
    own.save(TrainState(num_iterations=5))
    own.delete(keep_own=True)
    assert own.load(None)[0].num_iterations == 5
    own.delete(keep_own=False)
    assert own.load(None) == (TrainState(), "")


def test_biases_survive_json_to_the_last_bit_and_their_settings_come_from_the_plan():
    learned = Biases(np.array([1.0, 1 / 3]), np.array([1.0, 0.1]), 2)
    content = json.loads(json.dumps(TrainState(3, "text", learned, (0.5,)).as_json()))
    state = state_from_json(content, initial_biases(2, 1))
    assert state.biases.t_plus.tobytes() == learned.t_plus.tobytes()
    assert state.biases.t_minus.tobytes() == learned.t_minus.tobytes()
    assert state.biases.regularization == 1


@pytest.fixture(scope="module")
def model() -> str:
    rng = np.random.default_rng(1)
    features, labels = rng.normal(size=(200, 3)), rng.normal(size=200)
    parameters = {"objective": "regression", "num_leaves": 4, "verbose": -1}
    dataset = lgb.Dataset(features, labels)
    return lgb.train(parameters, dataset, num_boost_round=2).model_to_string()


def with_hash(state: dict) -> bytes:
    """Return a checkpoint whose hash is right."""
    digest = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
    return json.dumps({"sha256": digest, "state": state}).encode()


def change_state(content: bytes, **changes: object) -> bytes:
    return with_hash(json.loads(content)["state"] | changes)


DAMAGE = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "zeros": lambda content: bytes(len(content)),
    "not text": lambda content: b"\xff" + content,
    "altered": lambda content: content.replace(b"leaf_value=", b"leaf_value=9", 1),
    "another number": lambda content: content.replace(b'_iterations": 2', b'_iterations": 3'),
    "no hash": lambda content: json.dumps(json.loads(content)["state"]).encode(),
    "a list": lambda content: b"[]",
    "a field too many": lambda content: change_state(content, more=1),
    "a model that would crash": lambda content: change_state(
        content, model=json.loads(content)["state"]["model"].replace("left_child=", "left_child=7")
    ),
    "other positions": lambda content: change_state(content, biases=[[1.0], [1.0]]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_counts_as_absent_and_is_named(damage, model, tmp_path, caplog):
    own = Checkpoints(str(tmp_path), "method=joint", "abc")
    initial = initial_biases(4, 1)
    state = TrainState(2, model, initial, (0.5, 0.25))
    own.save(state)
    assert own.load(initial)[0].model == model
    (file,) = tmp_path.rglob("abc.json")
    content = file.read_bytes()
    damaged = DAMAGE[damage](content)
    assert damaged != content
    file.write_bytes(damaged)
    loaded, reason = own.load(initial)
    assert (loaded.num_iterations, loaded.model, loaded.history) == (0, "", ())
    assert loaded.biases is initial
    assert "checkpoints/method=joint/abc.json is damaged" in reason
    assert reason in caplog.text
