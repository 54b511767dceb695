"""The state of training, and the file that a failed run resumes from.

    ROOT/checkpoints/PARTITION/FINGERPRINT.json

The fingerprint covers inputs and settings, so a run never resumes from another one's state. The
file is replaced atomically. Two attempts may write it at once: a run has the same states in every
attempt. A hash of the state is part of the file. A damaged file (empty, truncated, altered, or with
a model that LightGBM could not read safely) counts as absent: training starts from the beginning.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ulr.models.check import read_checked
from ulr.training.biases import LearnedBiases
from ulr.warehouse.storage import Storage

TABLE = "checkpoints"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainState:
    """State after `num_iterations` trees.

    model: text of the trees. biases: those learned. history: a validation value for each iteration;
    blocks: the sums behind it. choice: how method and number of leaves were chosen. note: why
    validation decides nothing, if so. Random draws are functions of the iteration, so there is no
    random state.
    """

    num_iterations: int = 0
    model: str = ""
    biases: LearnedBiases | None = None
    history: tuple[float, ...] = ()
    blocks: tuple[tuple[int, ...], ...] = ()
    choice: Mapping[str, Any] | None = None
    note: str = ""
    finished: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return JSON values; floats keep every bit."""
        biases = None if self.biases is None else self.biases.values()
        lists = {"history": list(self.history), "blocks": [list(row) for row in self.blocks]}
        return {**vars(self), **lists, "biases": biases}


def state_from_json(content: dict[str, Any], initial: LearnedBiases | None) -> TrainState:
    """Return the state that `as_json` wrote. initial: holds the settings of the biases."""
    biases = initial
    if initial is not None and content["biases"] is not None:
        biases = initial.with_values(content["biases"])
    history, blocks = tuple(content["history"]), tuple(map(tuple, content["blocks"]))
    return TrainState(**{**content, "biases": biases, "history": history, "blocks": blocks})


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoint of one run; it can be pickled."""

    url: str
    partition: str
    fingerprint: str

    @property
    def _file(self) -> str:
        return f"{self.fingerprint}.json"

    def save(self, state: TrainState) -> None:
        """Replace the checkpoint."""
        values = state.as_json()
        content = {"sha256": _hash(values), "state": values}
        Storage(self.url).write_json(content, TABLE, self.partition, self._file)

    def load(self, initial: LearnedBiases | None) -> tuple[TrainState, str]:
        """Return the last state, or the initial one; and what is wrong with a damaged file."""
        storage, path = Storage(self.url), (TABLE, self.partition, self._file)
        if not storage.exists(*path):
            return TrainState(biases=initial), ""
        try:
            return _read(storage.read_text(*path), initial), ""
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            reason = f"{type(error).__name__}: {error}"
            damage = f"checkpoint {'/'.join(path)} is damaged ({reason}): starting over"
            _LOG.warning(damage)
            return TrainState(biases=initial), damage

    def delete(self, *, keep_own: bool) -> None:
        """Delete the checkpoints of other runs of this partition, and the own one if not kept."""
        storage = Storage(self.url)
        for file in storage.files(TABLE, self.partition):
            if not (keep_own and file.path.endswith(f"/{self._file}")):
                storage.delete(file.path)


def _hash(state: dict[str, Any]) -> str:
    """Return the hash of a state, the same before it was written and after it was read."""
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _read(text: str, initial: LearnedBiases | None) -> TrainState:
    """Return the state in a checkpoint, or raise one of several errors if it is damaged."""
    content = json.loads(text)
    if content["sha256"] != _hash(content["state"]):
        raise ValueError("the content does not match its hash")
    state = state_from_json(content["state"], initial)
    if state.model:
        read_checked(state.model.encode(), "of the checkpoint")
    if initial is not None and state.biases is not None:
        own, wanted = ([len(v) for v in b.values()] for b in (state.biases, initial))
        if own != wanted:
            raise ValueError("the biases have another number of positions")
    return state
