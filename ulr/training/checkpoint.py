"""The state of training, and the file that a failed run resumes from.

    ROOT/checkpoints/PARTITION/FINGERPRINT.json

The fingerprint covers inputs and settings, so a run never resumes from another one's state. The
file is replaced atomically. Two attempts may write it at once: a run has the same states in every
attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulr.training.objective import Biases
from ulr.warehouse.storage import Storage

TABLE = "checkpoints"


@dataclass(frozen=True)
class TrainState:
    """State after `num_iterations` trees: their text, t+ and t-, one validation value for each.

    Random draws are functions of the iteration, so there is no random state.
    """

    num_iterations: int = 0
    model: str = ""
    biases: Biases | None = None
    history: tuple[float, ...] = ()
    finished: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return JSON values; floats keep every bit."""
        biases = None
        if self.biases is not None:
            biases = [self.biases.t_plus.tolist(), self.biases.t_minus.tolist()]
        return {**vars(self), "biases": biases, "history": list(self.history)}


def state_from_json(content: dict[str, Any], initial: Biases | None) -> TrainState:
    """Return the state that `as_json` wrote. initial: holds the settings of the biases."""
    biases = initial
    if initial is not None and content["biases"] is not None:
        t_plus, t_minus = (np.array(values, np.float64) for values in content["biases"])
        biases = replace(initial, t_plus=t_plus, t_minus=t_minus)
    history = tuple(content["history"])
    return TrainState(**{**content, "biases": biases, "history": history})


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
        Storage(self.url).write_json(state.as_json(), TABLE, self.partition, self._file)

    def load(self, initial: Biases | None) -> TrainState:
        """Return the last state, or the initial one."""
        content = Storage(self.url).read_json(TABLE, self.partition, self._file)
        return TrainState(biases=initial) if content is None else state_from_json(content, initial)

    def delete(self, *, keep_own: bool) -> None:
        """Delete the checkpoints of other runs of this partition, and the own one if not kept."""
        storage = Storage(self.url)
        for file in storage.files(TABLE, self.partition):
            if not (keep_own and file.path.endswith(f"/{self._file}")):
                storage.delete(file.path)
