"""The objective bound to a pair table: scores in, gradient and Hessian out.

It holds the only state of training besides the trees: the learned biases. Everything that is
summed over all data goes through `reduce`, so the same objective serves one process and many.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ulr.kernels.lambdas import lambda_gradients
from ulr.kernels.layout import PairLists
from ulr.kernels.losses import debias_counts, position_losses
from ulr.kernels.threads import KERNELS

Reduce = Callable[[np.ndarray], np.ndarray]
GRID = 2.0**-20
EXACT_BITS = 53  # of a float64: sums of fewer steps of the grid do not depend on their order


@dataclass(frozen=True)
class LambdaOptions:
    """LightGBM's names and meanings, then ours: metric is ndcg (lambdas) or ranknet (D = 1)."""

    sigmoid: float = 1.0
    lambdarank_truncation_level: int = 30
    lambdarank_norm: bool = False
    objective: str = "lambdarank"
    nonnegative_weights: bool = True


def alone(totals: np.ndarray) -> np.ndarray:
    """One process: the sum over workers is one's own."""
    return totals


def grid_for(bound: float) -> float:
    """The step that gradients are rounded to, so that sums up to `bound` are exact."""
    return max(GRID, 2.0 ** (math.frexp(bound)[1] - EXACT_BITS))


def make_nonnegative(pairs: PairLists) -> PairLists:
    """Raise both weights of a pair by the same amount until neither is negative.

    A both-clicked pair weighs a_i - a_ij < 0 under `joint`. Over many sessions these cancel what
    they must, but few sessions can leave u_ij < 0, though the r_i (1 - r_j) it estimates is not:
    the pair's loss then has no minimum and boosting follows it without end. Only u_ij - u_ji says
    which document is better, and the amount keeps it; it is free of a_ij, and unbiased.
    The table keeps the weights as they are, and so does validation: its loss stays unbiased.
    """
    short = -np.minimum(np.minimum(pairs.u_ij, pairs.u_ji), 0)
    if not short.any():
        return pairs
    return pairs._replace(u_ij=pairs.u_ij + short, u_ji=pairs.u_ji + short)


class PairObjective:
    """Gradients of a pair table. Buffers are made once; every call fills the same ones."""

    def __init__(
        self,
        pairs: PairLists,
        options: LambdaOptions,
        biases: Biases | None = None,
        reduce: Reduce = alone,
    ) -> None:
        self.pairs = pairs = make_nonnegative(pairs) if options.nonnegative_weights else pairs
        self.options = options
        self.biases = biases
        self.reduce = reduce
        self.gradients = np.zeros(pairs.rows, np.float32)
        self.hessians = np.zeros(pairs.rows, np.float32)
        # In whole numbers, so that all workers have the same total, and with it the same grid.
        own = np.ceil(np.abs(pairs.u_ij) + np.abs(pairs.u_ji)).sum(dtype=np.float64)
        self._total_weight = int(reduce(np.array([own], np.int64))[0])
        self._weighted = pairs
        if biases is not None:
            self._weighted = pairs._replace(
                u_ij=np.empty_like(pairs.u_ij), u_ji=np.empty_like(pairs.u_ji)
            )

    def fill(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient and Hessian (float32, multiples of the grid) at `scores` (float64)."""
        with KERNELS:
            self._fill(scores)
        return self.gradients, self.hessians

    def _fill(self, scores: np.ndarray) -> None:
        if self.biases is not None:
            debias_counts(
                self.pairs,
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
            grid=grid_for(self._bound()),
        )

    def _bound(self) -> float:
        """More than any sum of gradients or Hessians can be: a pair adds to two rows."""
        sigma = self.options.sigmoid
        most = 2.0 * max(sigma, sigma * sigma) * self._total_weight
        if self.biases is not None:
            most /= float(self.biases.t_plus.min() * self.biases.t_minus.min())
        return most

    def learn_biases(self, scores: np.ndarray) -> None:
        """After an iteration: t+ and t- from the losses of all data at the new scores."""
        if self.biases is None:
            return
        with KERNELS:
            losses = position_losses(
                scores,
                self.pairs,
                self.biases.t_plus,
                self.biases.t_minus,
                sigmoid=self.options.sigmoid,
                truncation_level=self.options.lambdarank_truncation_level,
                objective=self.options.objective,
            )
        self.biases = self.biases.updated(self.reduce(losses))


@dataclass(frozen=True)
class Biases:
    """Per position bin, both relative to position 1. `p`: 0 not regularised, 1 or 2 more so.

    With `fixed_click_bias`, t+ stays what it was given as, and only t- is learned (Kurennoy 6.2).
    """

    t_plus: np.ndarray
    t_minus: np.ndarray
    p: int
    fixed_click_bias: bool = False

    def updated(self, losses: np.ndarray) -> Biases:
        """t_k = (loss_k / loss_1)^(1 / (p + 1)); a bin without loss keeps its value.

        losses: 2 x bins, plus and minus, in any unit.
        """
        plus, minus = (_relative(side.astype(np.float64), self.p) for side in losses)
        t_plus = self.t_plus if self.fixed_click_bias else np.where(plus > 0, plus, self.t_plus)
        return replace(self, t_plus=t_plus, t_minus=np.where(minus > 0, minus, self.t_minus))


def first_biases(bins: int, p: int, theta: np.ndarray | None = None) -> Biases:
    """No bias at all; or t+ = theta / theta(1), its last value repeated for deeper bins."""
    if theta is None:
        return Biases(np.ones(bins), np.ones(bins), p)
    given = np.concatenate([theta, np.full(max(bins - theta.size, 0), theta[-1])])[:bins]
    return Biases(given / given[0], np.ones(bins), p, fixed_click_bias=True)


def _relative(losses: np.ndarray, p: int) -> np.ndarray:
    if losses[0] <= 0:
        return np.zeros_like(losses)
    return (np.maximum(losses, 0.0) / losses[0]) ** (1.0 / (p + 1))
