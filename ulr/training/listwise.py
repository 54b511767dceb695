"""The objective of `dla`: a softmax loss over the clicked documents of a list.

The weights of clicks are learned with the trees (Ai 2018; docs/methods.md section 6.1). Sums over
all data are taken by `reduce`, so one rank and many use the same objective.
"""

from __future__ import annotations

import numpy as np

from ulr.kernels.layout import PairLists
from ulr.kernels.listwise import list_gradients, position_gradients
from ulr.training.biases import PositionLogits
from ulr.training.objective import Reduce, grid_step


class ListObjective:
    """Gradients of the lists of a pair table. Every call fills the same two buffers."""

    def __init__(
        self, pairs: PairLists, biases: PositionLogits, reduce: Reduce = lambda totals: totals
    ) -> None:
        self.biases = biases
        self.reduce = reduce
        self.gradients = np.zeros(pairs.rows, np.float32)
        self.hessians = np.zeros(pairs.rows, np.float32)
        self._pairs = pairs
        # Integers add exactly, so that all ranks have the same total and the same grid.
        own = np.ceil(pairs.clicks).sum(dtype=np.float64)
        self._total_clicks = int(reduce(np.array([own], np.int64))[0])

    def fill(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and Hessian (float32, multiples of the grid) at `scores` (float64)."""
        weights = self.biases.weights
        # A list adds at most 2 W to all sums of gradients, and W is at most clicks times weight.
        bound = 2.0 * self._total_clicks * float(weights.max())
        list_gradients(
            scores, self._pairs, weights, self.gradients, self.hessians, grid=grid_step(bound)
        )
        return self.gradients, self.hessians

    def learn_biases(self, scores: np.ndarray) -> None:
        """Update the logits from the gradients of all data at `scores` (float64)."""
        sums = position_gradients(scores, self._pairs, self.biases.logits)
        self.biases = self.biases.updated(self.reduce(sums))
