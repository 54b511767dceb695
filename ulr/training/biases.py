"""t+ and t-: click and unclick biases learned beside the ranker (Hu 2019; METHODS section 6).

Oosterhuis 2022 (theorem 7.2) proves that the assumption behind them cannot hold for biased
clicks; they are offered because they work in practice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Biases:
    """Per position bin, both relative to position 1. `p`: 0 not regularised, 1 or 2 more so.

    With `theta_given`, t+ stays what it was given as, and only t- is learned (Kurennoy 6.2).
    """

    t_plus: np.ndarray
    t_minus: np.ndarray
    p: int
    theta_given: bool = False

    def updated(self, losses: np.ndarray) -> Biases:
        """t_k = (loss_k / loss_1)^(1 / (p + 1)); a bin without loss keeps its value.

        losses: 2 x bins, plus and minus, in any unit.
        """
        plus, minus = (_relative(side.astype(np.float64), self.p) for side in losses)
        t_plus = self.t_plus if self.theta_given else np.where(plus > 0, plus, self.t_plus)
        return replace(self, t_plus=t_plus, t_minus=np.where(minus > 0, minus, self.t_minus))


def first_biases(bins: int, p: int, theta: np.ndarray | None = None) -> Biases:
    """No bias at all; or t+ = theta / theta(1), its last value repeated for deeper bins."""
    if theta is None:
        return Biases(np.ones(bins), np.ones(bins), p)
    given = np.concatenate([theta, np.full(max(bins - theta.size, 0), theta[-1])])[:bins]
    return Biases(given / given[0], np.ones(bins), p, theta_given=True)


def _relative(losses: np.ndarray, p: int) -> np.ndarray:
    if losses[0] <= 0:
        return np.zeros_like(losses)
    return (np.maximum(losses, 0.0) / losses[0]) ** (1.0 / (p + 1))
