"""Where a run can go on after a loss: one file that is replaced whole.

    ROOT/checkpoints/PARTITION/IDENTITY.json

The identity is the fingerprint of inputs and settings: a run never resumes another's work. Two
attempts that write at once do no harm, since every state of a run is the same in every attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulr.training.objective import Biases
from ulr.warehouse.storage import Storage

TABLE = "checkpoints"


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoint of one run; plain values, so that it can travel to a task."""

    url: str
    partition: str
    identity: str

    def save(self, state: TrainState) -> None:
        """Publish a state in place of the one before."""
        content = {"identity": self.identity, "state": state.as_json()}
        Storage(self.url).write_json(content, TABLE, self.partition, f"{self.identity}.json")

    def load(self, first: Biases | None) -> TrainState:
        """The last state, or the beginning."""
        found = Storage(self.url).read_json(TABLE, self.partition, f"{self.identity}.json")
        if found is None or found["identity"] != self.identity:
            return TrainState(biases=first)
        return state_from_json(found["state"], first)

    def sweep(self, *, keep_own: bool) -> None:
        """Remove what other runs of this partition left behind, and the own one when done."""
        storage = Storage(self.url)
        for file in storage.files(TABLE, self.partition):
            if not (keep_own and file.path.endswith(f"/{self.identity}.json")):
                storage.delete(file.path)


@dataclass(frozen=True)
class TrainState:
    """rounds: trees grown; model: their text; history: validation value after each round.

    Random draws are functions of the round's number, so there is no random state to keep.
    """

    num_iterations: int = 0
    model: str = ""
    biases: Biases | None = None
    history: tuple[float, ...] = ()
    finished: bool = False

    def as_json(self) -> dict[str, Any]:
        """For a checkpoint; floats keep every bit."""
        sides = None
        if self.biases is not None:
            sides = [self.biases.t_plus.tolist(), self.biases.t_minus.tolist()]
        return {**vars(self), "biases": sides, "history": list(self.history)}


def state_from_json(content: dict[str, Any], first: Biases | None) -> TrainState:
    """What `as_json` gave; `first` knows what about the biases is a setting."""
    biases = first
    if first is not None and content["biases"] is not None:
        t_plus, t_minus = (np.array(side, np.float64) for side in content["biases"])
        biases = replace(first, t_plus=t_plus, t_minus=t_minus)
    history = tuple(content["history"])
    return TrainState(**{**content, "biases": biases, "history": history})
