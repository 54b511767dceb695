"""What is learned beside the trees: t+ and t-, or the logits of positions.

They are functions of sums over all data, and part of the state of training.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

MAX_UNCLICK_BIAS = 2.0  # t- above it: the biases do not converge to examination
LEARNED_BIASES = ("t_plus", "t_minus", "position_bias")  # their names in the record of a model
MAX_STEP = 1.0  # of a logit in one iteration


@dataclass(frozen=True)
class Biases:
    """t+ and t- per position bin (float64), relative to position 1 (docs/methods.md section 6).

    regularization: p of the exponent 1 / (p + 1); 0 is none.
    fixed_click_bias: only t- is learned (Kurennoy 6.2).
    """

    t_plus: np.ndarray
    t_minus: np.ndarray
    regularization: float
    fixed_click_bias: bool = False

    def updated(self, losses: np.ndarray) -> Biases:
        """Return t_k = (loss_k / loss_1)^(1 / (p + 1)); a bin without loss keeps its value.

        losses: 2 x bins, plus and minus, in any unit.
        """
        plus, minus = self._relative(losses[0]), self._relative(losses[1])
        t_plus = self.t_plus if self.fixed_click_bias else np.where(plus > 0, plus, self.t_plus)
        return replace(self, t_plus=t_plus, t_minus=np.where(minus > 0, minus, self.t_minus))

    def values(self) -> list[list[float]]:
        """Return t+ and t-, for JSON."""
        return [self.t_plus.tolist(), self.t_minus.tolist()]

    def with_values(self, values: list[list[float]]) -> Biases:
        """Return the biases that `values` wrote, with the settings of these."""
        t_plus, t_minus = (np.array(value, np.float64) for value in values)
        return replace(self, t_plus=t_plus, t_minus=t_minus)

    def record(self) -> dict[str, list[float]]:
        """Return the learned values for the record of the model."""
        return {"t_plus": self.t_plus.tolist(), "t_minus": self.t_minus.tolist()}

    def warnings(self) -> list[str]:
        """Return a line if a t- is above MAX_UNCLICK_BIAS, else nothing."""
        high = int(self.t_minus.argmax())
        if self.t_minus[high] <= MAX_UNCLICK_BIAS:
            return []
        return [
            f"t- of position {high + 1} is {self.t_minus[high]:.2f}, above {MAX_UNCLICK_BIAS:g}: "
            "the biases of unbiased-lambdamart diverge and the model may rank worse than naive; "
            "raise train.bias_regularization, lower train.bias_rounds, or use another method"
        ]

    def _relative(self, losses: np.ndarray) -> np.ndarray:
        if losses[0] <= 0:
            return np.zeros(losses.size)
        positive = np.maximum(losses.astype(np.float64), 0.0)
        return (positive / positive[0]) ** (1.0 / (self.regularization + 1))


def initial_biases(bins: int, regularization: float, theta: np.ndarray | None = None) -> Biases:
    """Return t+ = t- = 1, or t+ = theta / theta(1) with its last value for deeper bins."""
    if theta is None:
        return Biases(np.ones(bins), np.ones(bins), regularization)
    deeper = np.full(max(bins - theta.size, 0), theta[-1])
    t_plus = np.concatenate([theta, deeper])[:bins]
    return Biases(t_plus / t_plus[0], np.ones(bins), regularization, fixed_click_bias=True)


@dataclass(frozen=True)
class PositionLogits:
    """Logits x of the position bins (float64) of `dla`; examination is softmax(x).

    learning_rate: the fraction of a Newton step that an iteration takes.
    """

    logits: np.ndarray
    learning_rate: float

    @property
    def weights(self) -> np.ndarray:
        """g_1 / g_k of every bin: the weight of a click."""
        weights: np.ndarray = np.exp(self.logits[0] - self.logits)
        return weights

    def updated(self, sums: np.ndarray) -> PositionLogits:
        """Return the logits after a step; sums: 2 x bins, gradient and Hessian in any unit."""
        gradient, hessian = sums.astype(np.float64)
        step = np.divide(gradient, hessian, out=np.zeros_like(gradient), where=hessian > 0)
        step = np.clip(self.learning_rate * step, -MAX_STEP, MAX_STEP)
        return replace(self, logits=self.logits - step)

    def values(self) -> list[list[float]]:
        """Return the logits, for JSON."""
        return [self.logits.tolist()]

    def with_values(self, values: list[list[float]]) -> PositionLogits:
        """Return the logits that `values` wrote, with the settings of these."""
        (logits,) = values
        return replace(self, logits=np.array(logits, np.float64))

    def record(self) -> dict[str, list[float]]:
        """Return the learned values for the record of the model."""
        return {"position_bias": (1 / self.weights).tolist()}

    def warnings(self) -> list[str]:
        """Return nothing: the logits have no known sign of divergence."""
        return []


def initial_logits(bins: int, learning_rate: float) -> PositionLogits:
    """Return equal logits: every position is examined as often."""
    return PositionLogits(np.zeros(bins), learning_rate)


LearnedBiases = Biases | PositionLogits
