"""The objective of a pair table: scores in, gradient and Hessian out (docs/methods.md section 5).

It holds the state of training besides the trees: t+ and t-. Sums over all data are taken by
`reduce`, so one rank and many use the same objective.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ulr.kernels.lambdas import lambda_gradients
from ulr.kernels.layout import PairLists
from ulr.kernels.losses import debias_counts, position_losses
from ulr.kernels.pair_runs import pair_runs
from ulr.training.biases import Biases

Reduce = Callable[[np.ndarray], np.ndarray]
GRID = 2.0**-20
EXACT_BITS = 53  # of a float64: below 2^53 steps of the grid, a sum does not depend on its order


@dataclass(frozen=True)
class LambdaOptions:
    """Parameters of LightGBM's lambdarank, then ours. objective: lambdarank or ranknet (D = 1)."""

    sigmoid: float = 1.0
    lambdarank_truncation_level: int = 30
    lambdarank_norm: bool = False
    objective: str = "lambdarank"
    nonnegative_weights: bool = True


def grid_step(bound: float) -> float:
    """Return the step to round gradients to, so that sums up to `bound` are exact."""
    return max(GRID, 2.0 ** (math.frexp(bound)[1] - EXACT_BITS))


def make_nonnegative(pairs: PairLists) -> PairLists:
    """Return the pairs with both weights of a pair raised equally until neither is negative.

    Under `joint`, a pair with both documents clicked has the weight a_i - a_ij < 0. With few
    sessions the sum u_ij can be negative, although it estimates r_i (1 - r_j) >= 0. The loss of
    such a pair has no minimum, so boosting would not converge. The order of the two documents
    depends on u_ij - u_ji only, which does not change here. The table and the validation loss keep
    the original weights, so that the minimiser of a pair's expected loss does not change either.
    """
    shortfall = -np.minimum(np.minimum(pairs.u_ij, pairs.u_ji), 0)
    if not shortfall.any():
        return pairs
    return pairs._replace(u_ij=pairs.u_ij + shortfall, u_ji=pairs.u_ji + shortfall)


class PairObjective:
    """Gradients of a pair table. Every call fills the same two buffers."""

    def __init__(
        self,
        pairs: PairLists,
        options: LambdaOptions,
        biases: Biases | None = None,
        reduce: Reduce = lambda totals: totals,
    ) -> None:
        pairs = make_nonnegative(pairs) if options.nonnegative_weights else pairs
        self.options = options
        self.biases = biases
        self.reduce = reduce
        self.gradients = np.zeros(pairs.rows, np.float32)
        self.hessians = np.zeros(pairs.rows, np.float32)
        # Integers add exactly, so that all ranks have the same total and the same grid.
        own = np.ceil(np.abs(pairs.u_ij) + np.abs(pairs.u_ji)).sum(dtype=np.float64)
        self._total_weight = int(reduce(np.array([own], np.int64))[0])
        self._pairs = None if biases is None else pairs  # t+ and t- are learned from them
        self._runs = self._weighted = pair_runs(pairs)
        if biases is not None:
            self._weighted = self._runs._replace(
                u_ij=self._runs.u_ij.copy(), u_ji=self._runs.u_ji.copy()
            )

    def fill(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and Hessian (float32, multiples of the grid) at `scores` (float64)."""
        self._fill(scores)
        return self.gradients, self.hessians

    def _fill(self, scores: np.ndarray) -> None:
        if self.biases is not None and self._pairs is not None:
            debias_counts(
                self._runs,
                self._pairs.position,
                self.biases.t_plus,
                self.biases.t_minus,
                self._weighted.u_ij,
                self._weighted.u_ji,
            )
        lambda_gradients(
            scores,
            self._weighted,
            self.gradients,
            self.hessians,
            sigmoid=self.options.sigmoid,
            truncation_level=self.options.lambdarank_truncation_level,
            norm=self.options.lambdarank_norm,
            objective=self.options.objective,
            grid=grid_step(self._bound()),
        )

    def _bound(self) -> float:
        """Return an upper bound for all sums of gradients or Hessians: a pair adds to two rows."""
        sigma = self.options.sigmoid
        bound = 2.0 * max(sigma, sigma * sigma) * self._total_weight
        if self.biases is not None:
            bound /= float(self.biases.t_plus.min() * self.biases.t_minus.min())
        return bound

    def learn_biases(self, scores: np.ndarray) -> None:
        """Update t+ and t- from the losses of all data at `scores` (float64)."""
        if self.biases is None or self._pairs is None:
            return
        losses = position_losses(
            scores,
            self._pairs,
            self.biases.t_plus,
            self.biases.t_minus,
            sigmoid=self.options.sigmoid,
            truncation_level=self.options.lambdarank_truncation_level,
            objective=self.options.objective,
        )
        self.biases = self.biases.updated(self.reduce(losses))
