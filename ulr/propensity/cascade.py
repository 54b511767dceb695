"""Users who stop after clicks, compared with the browsing models on the same co-clicks.

A user leaves the page after a click with probability phi, and continues to the next position with
probability beta otherwise. Co-clicks at k < l then have probability A_k A_l E_kl with

    E_kl = beta^(l-1) (1 - phi) * prod of (1 - phi A_m), m < l, m != k,

where A_m is the attraction of the document shown at m. A swap changes what is clicked above, so
E_kl differs between the arms for positions that do not move as well. The other models predict no
difference there, and theirs is a constant of the likelihood; the difference to it is added to that
of the cascade, so that all models are compared on the same co-clicks (docs/methods.md section 3.5).
A_m is the mean over the traffic: the likelihood of the cascade is an approximation, which can only
lower it.
"""

from __future__ import annotations

import numpy as np
import scipy  # loads scipy.optimize, which takes 0.3 s, when it is used
from threadpoolctl import threadpool_limits

from ulr.experiments.buckets import permutation
from ulr.propensity.browsing import BrowsingFit, bic
from ulr.propensity.likelihood import observe
from ulr.propensity.swap_counts import Arm, BucketArms, SwapCounts

NAME = "cascade"
PHI, BETA = "stop_probability", "continue_probability"


def fit_cascade(theta: np.ndarray, counts: SwapCounts) -> BrowsingFit:
    """Fit phi and beta by maximum likelihood; log likelihood and BIC are those of the co-clicks.

    psi is the smaller theta.
    """
    known = ~np.isnan(theta)
    co_clicks = observe(counts, pairs=True, known=known)
    rates = _click_rates(counts)
    parts: list[_Bucket | _Shuffle] = [
        _Bucket(arms, known) for arms in counts.buckets.values() if _has_both(arms)
    ]
    parts += [_Shuffle(depth, arm, known) for depth, arm in counts.shuffles.items()]

    def likelihood(x: np.ndarray, *, clicks: bool) -> float:
        phi, beta = 1 / (1 + np.exp(-x))
        attraction = attractions(rates, phi, beta)
        return sum(part.log_likelihood(attraction, phi, beta, clicks=clicks) for part in parts)

    scale = max(co_clicks.total, 1.0)
    minimize = scipy.optimize.minimize
    with threadpool_limits(1, user_api="blas"):
        best = minimize(
            lambda x: -likelihood(x, clicks=True) / scale, np.array([-1.0, 2.0]),
            method="L-BFGS-B", bounds=[(-9, 9)] * 2,
        ).x  # fmt: skip
    value = likelihood(best, clicks=False)
    phi, beta = (1 / (1 + np.exp(-best))).tolist()
    psi = np.minimum.outer(theta, theta)
    return BrowsingFit(NAME, psi, value, bic(value, 2, co_clicks), {PHI: phi, BETA: beta})


def attractions(rates: np.ndarray, phi: float, beta: float) -> np.ndarray:
    """Return A_m of the documents ranked at each position, from their click rates there."""
    attraction, reach = np.zeros(rates.size), 1.0
    for m, rate in enumerate(rates):
        attraction[m] = min(rate / max(reach, 1e-9), 1.0)
        reach *= beta * (1 - phi * attraction[m])
    return attraction


def co_examination(attraction: np.ndarray, phi: float, beta: float) -> np.ndarray:
    """Return E_kl of one order of documents, P(k examined) on the diagonal; symmetric."""
    stay = 1 - phi * attraction
    reach = np.concatenate([[1.0], np.cumprod(beta * stay)[:-1]])
    after = np.minimum.outer(np.arange(reach.size), np.arange(reach.size))
    deeper = np.minimum.outer(reach, reach)  # reach never rises
    both: np.ndarray = deeper * (1 - phi) / stay[after]
    np.fill_diagonal(both, reach)
    return both


def _click_rates(counts: SwapCounts) -> np.ndarray:
    arm = counts.unswapped()
    rates: np.ndarray = arm.clicks / max(arm.sessions, 1)
    return rates


def _has_both(arms: BucketArms) -> bool:
    return min(arms.kept.sessions, arms.swapped.sessions) > 0


class _Bucket:
    """The clicks (k = l) and co-clicks (k < l) of the same documents in both arms of a bucket."""

    def __init__(self, arms: BucketArms, known: np.ndarray) -> None:
        n = known.size
        self.order = np.array(permutation(arms.bucket, n))
        now = np.argsort(self.order)
        k, v = np.triu_indices(n)
        low, high = np.minimum(now[k], now[v]), np.maximum(now[k], now[v])
        kept, swapped = arms.kept.co_clicks[k, v], arms.swapped.co_clicks[low, high]
        used = known[k] & known[v] & known[low] & known[high] & (kept + swapped > 0)
        self.kept_at, self.swapped_at = (k[used], v[used]), (low[used], high[used])
        self.kept, self.swapped = kept[used].astype(float), swapped[used].astype(float)
        self.odds = float(np.log(arms.kept.sessions / arms.swapped.sessions))
        self.moved = (low[used] != k[used]) | (high[used] != v[used])
        self.pair = k[used] != v[used]

    def log_likelihood(
        self, attraction: np.ndarray, phi: float, beta: float, *, clicks: bool
    ) -> float:
        """Return that of the binomials; where no document moves, less that of equal arms."""
        kept = co_examination(attraction, phi, beta)
        swapped = co_examination(attraction[self.order], phi, beta)
        x = self.odds + np.log(kept[self.kept_at]) - np.log(swapped[self.swapped_at])
        value = _binomial(self.kept, self.swapped, x)
        equal = _binomial(self.kept, self.swapped, np.full(x.size, self.odds))
        value -= np.where(self.moved, 0.0, equal)
        return float(value.sum() if clicks else value[self.pair].sum())


def _binomial(kept: np.ndarray, swapped: np.ndarray, x: np.ndarray) -> np.ndarray:
    value: np.ndarray = -(kept * np.logaddexp(0, -x) + swapped * np.logaddexp(0, x))
    return value


class _Shuffle:
    """The co-clicks of pages in random order, where all documents have the same mean attraction."""

    def __init__(self, depth: int, arm: Arm, known: np.ndarray) -> None:
        self.size = min(depth, known.size)
        k, v = np.triu_indices(self.size, 1)
        used = known[k] & known[v]
        self.at = k[used], v[used]
        self.clicks = arm.co_clicks[self.at].astype(float)

    def log_likelihood(
        self, attraction: np.ndarray, phi: float, beta: float, *, clicks: bool
    ) -> float:
        """Return that of the multinomial over pairs; clicks of single positions are not used."""
        if not self.clicks.any():
            return 0.0
        mean = np.full(self.size, attraction[: self.size].mean())
        x = np.log(co_examination(mean, phi, beta)[self.at])
        return float(self.clicks @ x - self.clicks.sum() * np.log(np.exp(x).sum()))
