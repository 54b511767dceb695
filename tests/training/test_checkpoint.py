from __future__ import annotations

import json

import numpy as np

from ulr.training.checkpoint import Checkpoints, TrainState, state_from_json
from ulr.training.objective import Biases, initial_biases


def test_a_checkpoint_of_other_inputs_is_not_resumed(tmp_path):
    own = Checkpoints(str(tmp_path), "method=joint", "abc")
    other = Checkpoints(str(tmp_path), "method=joint", "def")
    state = TrainState(num_iterations=5, model="text", history=(0.1, 1 / 3))
    own.save(state)
    assert own.load(None) == state
    assert other.load(None) == TrainState()
    other.delete(keep_own=True)
    assert own.load(None) == TrainState()


def test_the_own_checkpoint_is_deleted_only_if_it_is_not_kept(tmp_path):
    own = Checkpoints(str(tmp_path), "method=joint", "abc")
    own.save(TrainState(num_iterations=5))
    own.delete(keep_own=True)
    assert own.load(None).num_iterations == 5
    own.delete(keep_own=False)
    assert own.load(None) == TrainState()


def test_biases_survive_json_to_the_last_bit_and_their_settings_come_from_the_plan():
    learned = Biases(np.array([1.0, 1 / 3]), np.array([1.0, 0.1]), 2)
    content = json.loads(json.dumps(TrainState(3, "text", learned, (0.5,)).as_json()))
    state = state_from_json(content, initial_biases(2, 1))
    assert state.biases.t_plus.tobytes() == learned.t_plus.tobytes()
    assert state.biases.t_minus.tobytes() == learned.t_minus.tobytes()
    assert state.biases.regularization == 1
