"""The Beta prior of relevance, by maximum marginal likelihood (docs/methods.md section 7.7).

    r ~ Beta(s m, s (1 - m)),    logit m = intercept + slope x

x is the logarithm of the mean examination of a document's impressions: a ranking that is better
than random showed relevant documents where they were examined.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import betainc, digamma, expit, logit

from ulr.errors import InvalidData
from ulr.judgment.counts import sum_documents
from ulr.kernels.relevance import ShownCounts
from ulr.kernels.relevance_posteriors import relevance_posteriors

PriorKind: TypeAlias = Literal["position", "log"]
PRIOR_DOCUMENTS = 20_000  # with more, the error of the prior is far below that of a document
BOUNDS = (0.05, 1e4)  # of both parameters of the distribution
_LIMITS = [np.log([0.2, 1e4]), (-8.0, 8.0), (-3.0, 3.0)]  # of log s, intercept, slope
_FINENESS = 0.7  # enough for the integral; only quantiles need more points
_REPRESENTATIVES = 64


class Prior(NamedTuple):
    """The prior of each document, and of all: that of documents at `covariates`."""

    strength: float
    intercept: float
    slope: float
    covariates: tuple[float, ...]

    def parameters(self, covariates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a and b of documents with these x, float64."""
        mean = expit(self.intercept + self.slope * covariates)
        a, b = (np.clip(self.strength * m, *BOUNDS) for m in (mean, 1 - mean))
        return a, b

    def of(self, shown: ShownCounts) -> tuple[np.ndarray, np.ndarray]:
        """Return a and b of each document."""
        return self.parameters(covariates_of(shown))

    @property
    def mean(self) -> float:
        """The mean relevance of documents."""
        a, b = self.parameters(np.array(self.covariates))
        return float((a / (a + b)).mean())

    def below(self, relevance: np.ndarray) -> np.ndarray:
        """Return the fraction of documents with a lower relevance, float64."""
        a, b = self.parameters(np.array(self.covariates))
        result: np.ndarray = betainc(a, b, np.asarray(relevance)[..., None]).mean(axis=-1)
        return result

    def interval(self, tail: float) -> tuple[float, float]:
        """Return the relevances with the fraction `tail` below the first and above the second."""
        lower, upper = (
            brentq(lambda r, at=at: float(self.below(np.array(r))) - at, 0.0, 1.0)
            for at in (tail, 1 - tail)
        )
        return float(lower), float(upper)


def covariates_of(shown: ShownCounts) -> np.ndarray:
    """Return x of each document, float64; 0 for a document without impressions."""
    sessions = sum_documents(shown, shown.sessions)
    examined = sum_documents(shown, shown.sessions * shown.alpha)
    return np.log(np.where(sessions > 0, examined / np.maximum(sessions, 1), 1.0))


def fit_prior(shown: ShownCounts, kind: PriorKind = "position") -> Prior:
    """Return the prior under which the clicks of these documents are most likely.

    kind: `log` has slope 0. Every document has one relevance and counts by what its sessions say of
    it: moments of the click rates would give documents with few sessions the weight of their noise.
    Raises InvalidData without a click: the likelihood then has its maximum at relevance 0.
    """
    if not shown.clicks.any():
        raise InvalidData(
            "none of the documents shown has a click at a position with a propensity, so there is "
            "nothing to estimate relevance from"
        )
    x = covariates_of(shown)
    centre = float(x.mean())
    limits = [*_LIMITS[:2], _LIMITS[2] if kind == "position" else (0.0, 0.0)]

    def prior_at(values: np.ndarray) -> Prior:
        log_strength, intercept, slope = (float(v) for v in values)
        return Prior(float(np.exp(log_strength)), intercept - slope * centre, slope, ())

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        prior = prior_at(values)
        a, b = prior.parameters(x)
        found = relevance_posteriors(shown, a, b, 0.5, _FINENESS)
        total = digamma(a + b)
        by_a, by_b = found.log_r - digamma(a) + total, found.log_1_r - digamma(b) + total
        by_mean = a * b / (a + b) * (by_a - by_b)
        gradient = [a * by_a + b * by_b, by_mean, by_mean * (x - centre)]
        return -found.log_evidence.mean(), -np.array([part.mean() for part in gradient])

    rate = shown.clicks.sum() / (shown.sessions * shown.alpha).sum()
    start = [np.log(2.0), float(logit(np.clip(rate, 0.01, 0.9))), 0.0]
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=limits)
    at = (np.arange(_REPRESENTATIVES) + 0.5) / _REPRESENTATIVES
    return prior_at(result.x)._replace(covariates=tuple(np.quantile(x, at).tolist()))
