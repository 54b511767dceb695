"""The Beta prior of relevance, by maximum marginal likelihood (docs/methods.md section 7.6)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import betainc, betaincinv, digamma

from ulr.errors import InvalidData
from ulr.kernels.relevance import ShownCounts
from ulr.kernels.relevance_posteriors import relevance_posteriors

PRIOR_DOCUMENTS = 20_000  # with more, the error of the prior is far below that of a document
BOUNDS = (0.05, 1e4)  # of a and b
_START = (0.5, 2.0)
_FINENESS = 0.7  # enough for the integral; only quantiles need more points


class Prior(NamedTuple):
    """Beta(a, b)."""

    a: float
    b: float

    @property
    def mean(self) -> float:
        """The mean relevance of a document."""
        return self.a / (self.a + self.b)

    def interval(self, tail: float) -> tuple[float, float]:
        """Return the quantiles with `tail` below the first and above the second."""
        lower, upper = betaincinv(self.a, self.b, [tail, 1 - tail])
        return float(lower), float(upper)

    def below(self, relevance: np.ndarray) -> np.ndarray:
        """Return the probability of a lower relevance, float64."""
        result: np.ndarray = betainc(self.a, self.b, relevance)
        return result


def fit_prior(shown: ShownCounts) -> Prior:
    """Return the prior under which the clicks of these documents are most likely.

    Every document has one relevance and counts by what its sessions say of it: moments of the click
    rates would give documents with few sessions the weight of their noise. Raises InvalidData
    without a click, because the likelihood then has its maximum at relevance 0.
    """
    if not shown.clicks.any():
        raise InvalidData(
            "none of the documents shown has a click at a position with a propensity, so there is "
            "nothing to estimate relevance from"
        )

    def loss(logs: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = np.exp(logs)
        found = relevance_posteriors(shown, a, b, 0.5, _FINENESS)
        total = digamma(a + b)
        gradient = [
            a * (found.log_r.mean() - digamma(a) + total),
            b * (found.log_1_r.mean() - digamma(b) + total),
        ]
        return -found.log_evidence.mean(), -np.array(gradient)

    result = minimize(
        loss, np.log(_START), jac=True, method="L-BFGS-B", bounds=[np.log(BOUNDS)] * 2
    )
    a, b = np.exp(result.x)
    return Prior(float(a), float(b))
