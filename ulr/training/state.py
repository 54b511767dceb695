"""How far training has come: all that a resumed run needs, and nothing that it can work out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ulr.training.biases import Biases


@dataclass(frozen=True)
class TrainState:
    """rounds: trees grown; model: their text; history: validation value after each round.

    Random draws are functions of the round's number, so there is no random state to keep.
    """

    rounds: int = 0
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
