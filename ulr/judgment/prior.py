"""The Beta prior of relevance, by maximum marginal likelihood (docs/methods.md section 7.7).

    r = 1 with probability `one`, else r ~ Beta(s m, s (1 - m)),    logit m = intercept + slope x

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
_LIMITS = [np.log([0.2, 1e4]), (-8.0, 8.0), (-3.0, 3.0), (-14.0, -0.1)]
_NEGLIGIBLE = 1e-5  # a lower probability of r = 1 is 0
_FINENESS = 0.7  # enough for the integral; only quantiles need more points
_REPRESENTATIVES = 64


class Prior(NamedTuple):
    """The prior of each document, and of all: that of documents at `covariates`."""

    strength: float
    intercept: float
    slope: float
    one: float
    covariates: tuple[float, ...]

    def parameters(self, covariates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a and b of documents with these x where r < 1, float64."""
        mean = expit(self.intercept + self.slope * covariates)
        a, b = (np.clip(self.strength * m, *BOUNDS) for m in (mean, 1 - mean))
        return a, b

    def of(self, shown: ShownCounts) -> tuple[np.ndarray, np.ndarray, float]:
        """Return a and b of each document, and the probability of r = 1."""
        return *self.parameters(covariates_of(shown)), self.one

    @property
    def mean(self) -> float:
        """The mean relevance of documents."""
        a, b = self.parameters(np.array(self.covariates))
        return float(self.one + (1 - self.one) * (a / (a + b)).mean())

    def below(self, relevance: np.ndarray) -> np.ndarray:
        """Return the fraction of documents with a lower relevance, float64."""
        a, b = self.parameters(np.array(self.covariates))
        relevance = np.asarray(relevance, float)
        smooth: np.ndarray = betainc(a, b, relevance[..., None]).mean(axis=-1)
        return np.where(relevance < 1, (1 - self.one) * smooth, 1.0)

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
    limits = list(_LIMITS)
    if kind == "log":
        limits[2] = (0.0, 0.0)

    def prior_at(values: np.ndarray) -> Prior:
        log_strength, intercept, slope, log_odds = (float(v) for v in values)
        one = float(expit(log_odds))
        return Prior(float(np.exp(log_strength)), intercept - slope * centre, slope, one, ())

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        prior = prior_at(values)
        a, b = prior.parameters(x)
        found = relevance_posteriors(shown, a, b, prior.one, 0.5, _FINENESS)
        total = digamma(a + b)
        rest = 1 - found.one
        by_a = rest * (found.log_r - digamma(a) + total)
        by_b = rest * (found.log_1_r - digamma(b) + total)
        by_mean = a * b / (a + b) * (by_a - by_b)
        by_one = found.one - prior.one
        gradient = [a * by_a + b * by_b, by_mean, by_mean * (x - centre), by_one]
        return -found.log_evidence.mean(), -np.array([part.mean() for part in gradient])

    rate = shown.clicks.sum() / (shown.sessions * shown.alpha).sum()
    start = [np.log(2.0), float(logit(np.clip(rate, 0.01, 0.9))), 0.0, -4.0]
    result = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=limits)
    at = (np.arange(_REPRESENTATIVES) + 0.5) / _REPRESENTATIVES
    prior = prior_at(result.x)
    one = prior.one if prior.one >= _NEGLIGIBLE else 0.0
    return prior._replace(one=one, covariates=tuple(np.quantile(x, at).tolist()))
