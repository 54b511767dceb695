"""Decisions from validation losses: when to stop, how many trees to keep, which model is better.

Two losses are compared by their sums over blocks of queries, which give the standard error of the
difference. Lower is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

MIN_ITERATIONS = 20  # a model has at least as many trees
MIN_QUERIES = 20  # held-out weight of fewer effective queries decides nothing
FALLBACK_SHRINKAGE = 5.0  # trees times learning rate if nothing is decided: 100 trees at 0.05
WINDOW = 5  # iterations of the trailing mean
TOLERANCE = 0.5  # standard errors from the lowest loss


def trees_for(shrinkage: float, learning_rate: float) -> int:
    """Return the number of trees whose learning rates add up to `shrinkage`."""
    return math.ceil(shrinkage / learning_rate)


def as_losses(sums: Sequence[float] | Sequence[Sequence[int]], higher: bool) -> np.ndarray:
    """Return a metric as a loss: float64, of the same shape. higher: higher values are better."""
    values = np.array(sums, np.float64)
    return -values if higher else values


def smooth(losses: np.ndarray) -> np.ndarray:
    """Return the trailing mean over WINDOW iterations, the first axis: float64."""
    before = np.zeros((1, *losses.shape[1:]))
    sums = np.cumsum(np.concatenate([before, losses]), axis=0)
    last = np.arange(1, len(losses) + 1)
    first = np.maximum(last - WINDOW, 0)
    means: np.ndarray = ((sums[last] - sums[first]).T / (last - first)).T
    return means


def lowest_iteration(losses: np.ndarray) -> int:
    """Return the iteration with the lowest smoothed loss, from 1, and at least MIN_ITERATIONS.

    losses: one per iteration.
    """
    start = min(MIN_ITERATIONS, len(losses)) - 1
    return start + 1 + int(np.argmin(smooth(losses)[start:]))


def best_iteration(losses: np.ndarray) -> int:
    """Return the fewest trees whose smoothed loss is within TOLERANCE of the lowest.

    losses: iterations x blocks.
    """
    smoothed, lowest = smooth(losses), lowest_iteration(losses.sum(axis=1))
    for iteration in range(min(MIN_ITERATIONS, lowest), lowest):
        worse = smoothed[iteration - 1] - smoothed[lowest - 1]
        if worse.sum() <= TOLERANCE * standard_error(worse):
            return iteration
    return lowest


def standard_error(differences: np.ndarray) -> float:
    """Return the standard error of the sum of independent differences, one per block."""
    return float(np.sqrt(differences.size) * np.std(differences, ddof=1))


def is_lower(losses: np.ndarray, other: np.ndarray, errors: float) -> bool:
    """Return whether a loss is lower by that many standard errors. Both: one sum per block."""
    difference = (losses - other).astype(np.float64)
    return bool(difference.sum() < -errors * standard_error(difference))
