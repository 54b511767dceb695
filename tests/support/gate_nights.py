"""Simulated nights at the gate: models with known differences, measured on held-out queries."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from ulr.evaluation.totals import Column, difference, finish, total
from ulr.registry.gate import Check, check_comparison
from ulr.registry.noninferiority import Comparison, compare

METRIC = "snips_dcg"


@dataclass(frozen=True)
class Nights:
    """Nights whose leads have a given relative standard error.

    sessions: float64 per held-out query. error: true standard error of a lead. margin, undecided:
    settings of the gate. anchor: its value, None without an anchor.
    """

    sessions: np.ndarray
    error: float
    margin: float = 0.005
    undecided: str = "estimate"
    anchor: float | None = 1.0

    def measure(self, rng: np.random.Generator, value: float) -> Column:
        """Return a model's metric on tonight's queries; every query has its own error."""
        w = self.sessions
        spread = self.error * w.sum() / sqrt(2 * (w @ w))
        return Column(METRIC, None, w * (value + spread * rng.normal(size=w.size)), w)

    def compare(self, challenger: Column, rival: Column) -> Comparison:
        """Return the comparison of two models on the same queries."""
        lead, own = (
            finish(next(iter(total(columns, "model", None).sums.values())))
            for columns in (difference([challenger], [rival]), [rival])
        )
        return compare(METRIC, lead, own.value, self.margin)

    def check(self, challenger: Column, rival: Column, *, anchor: bool) -> Check:
        """Return the gate's check of the challenger against a rival."""
        result = self.compare(challenger, rival)
        return check_comparison(result, "", anchor=anchor, undecided=self.undecided)

    def promotion_rate(self, seed: int, gain: float, nights: int) -> float:
        """Return how often a challenger with a relative gain replaces a champion, the anchor."""
        rng, promoted = np.random.default_rng(seed), 0
        for _ in range(nights):
            rival, challenger = self.measure(rng, 1.0), self.measure(rng, 1.0 + gain)
            promoted += self.check(challenger, rival, anchor=True).passed
        return promoted / nights

    def slide(self, seed: int, step: float, nights: int) -> float:
        """Return the relative loss after nights of challengers, each worse than its champion."""
        rng, champion = np.random.default_rng(seed), 1.0
        for _ in range(nights):
            value = champion * (1 - step)
            challenger = self.measure(rng, value)
            if all(
                self.check(challenger, self.measure(rng, rival), anchor=rival == self.anchor).passed
                for rival in sorted({champion, self.anchor or champion})
            ):
                champion = value
        return 1 - champion


def even(queries: int) -> np.ndarray:
    """Return equal sessions for every query."""
    return np.ones(queries)


def zipf(queries: int) -> np.ndarray:
    """Return sessions in proportion to 1 / rank."""
    return 1 / np.arange(1.0, queries + 1)
