"""What a paper reports, as differences that our runs confirm, contradict or leave open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.stats import ttest_rel

from tests.bench.papers.cells import Results
from tests.bench.papers.methods import Method
from tests.bench.papers.worlds import World

SIGNIFICANCE = 0.05


class Difference(NamedTuple):
    """Mean difference of a metric between two methods, over the test queries of all seeds."""

    mean: float
    error: float
    p_value: float

    @property
    def text(self) -> str:
        """The difference with its standard error."""
        return f"{self.mean:+.4f} ± {self.error:.4f}"


def difference(
    results: Results, world: World, better: Method, worse: Method, metric: str = "NDCG@10"
) -> Difference:
    """Compare two methods by a paired two-sided t-test over queries."""
    return compare(results, (world, better), (world, worse), metric)


def compare(
    results: Results, better: tuple[World, Method], worse: tuple[World, Method], metric: str
) -> Difference:
    """Compare two methods in worlds with the same test queries."""
    a, b = (np.concatenate(results.values(*cell, metric)) for cell in (better, worse))
    both = ~np.isnan(a) & ~np.isnan(b)
    gap = a[both] - b[both]
    error = float(gap.std(ddof=1) / np.sqrt(gap.size))
    return Difference(float(gap.mean()), error, float(ttest_rel(a[both], b[both]).pvalue))


@dataclass(frozen=True)
class Claim:
    """A statement of a paper: the first of two methods is better. why: if ours contradicts it.

    extra: tested in a world that the paper does not have, to explain another verdict.
    """

    text: str
    ours: Difference
    why: str = ""
    extra: bool = False

    @property
    def verdict(self) -> str:
        """Whether our run agrees, differs, or decides nothing at the 5% level."""
        if self.ours.p_value >= SIGNIFICANCE or np.isnan(self.ours.p_value):
            return "open"
        return "agrees" if self.ours.mean > 0 else "differs"
