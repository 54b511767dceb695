"""The validation loss of scores at their best scale.

Candidates differ in the size of their scores, but only the order of documents matters. The loss at
the best scale compares them fairly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ulr.kernels.pair_loss import pair_losses
from ulr.training.shard import TrainShard
from ulr.training.validation import BLOCKS, block_of

Reduce = Callable[[np.ndarray], np.ndarray]
_MAX_SCALE, _STEPS = 16.0, 20


def loss_at_best_scale(
    scores: np.ndarray | None, held_out: TrainShard | None, sigmoid: float, reduce: Reduce
) -> tuple[float, np.ndarray]:
    """Return the scale with the lowest loss over all ranks, and the loss of each block (int64).

    scores: float64, of this rank's validation rows, if it has any. Newton's method; the result is
    the same on all ranks, because each step uses sums over all of them.
    """

    def sums(scale: float) -> np.ndarray:
        own = np.zeros((3, BLOCKS), np.int64)
        if held_out is not None and scores is not None:
            own = pair_losses(
                scores, held_out.data.pairs, block_of(held_out.keys), BLOCKS,
                sigmoid=sigmoid, scale=scale,
            )  # fmt: skip
        return reduce(own.ravel()).reshape(own.shape)

    scale = 1.0
    for _ in range(_STEPS):
        _, slope, curvature = sums(scale)
        if curvature.sum() <= 0:
            break
        step = -float(slope.sum() / curvature.sum())
        scale = min(max(scale + step, scale / 4), 4 * scale, _MAX_SCALE)
        if abs(step) < 1e-3 * scale:
            break
    return scale, sums(scale)[0]
