"""phi and beta of users who stop after clicks, from click patterns (docs/methods.md section 3.12).

Position 1 is always examined, so within one ranking P(c_k | c_1 = 1) / P(c_k | c_1 = 0) = 1 - phi
for every k > 1: a Mantel-Haenszel ratio over rankings. With each click weighted (1 - phi)^-m for m
clicks above it, the ratios of swap buckets are beta^(distance of the two positions).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from ulr.experiments.buckets import parse_bucket, permutation
from ulr.kernels.within_rankings import ABOVE, AFTER_CLICK, OTHERWISE, UNITS, RankingSums
from ulr.propensity.curve import jackknife

_MIN_STAY = 1e-3  # of a user who nearly always stops


@dataclass(frozen=True)
class Stopping:
    """Estimates with jackknife errors over blocks of queries; beta is NaN without data.

    phi: P(the user leaves after a click). beta: P(the user continues downwards otherwise).
    """

    phi: float
    phi_error: float
    beta: float
    beta_error: float
    dof: float

    @property
    def p_value(self) -> float:
        """P-value of phi > 0, one-sided."""
        return float(stdtr(self.dof, -self.phi / max(self.phi_error, 1e-300)))

    def stops(self, significance: float) -> bool:
        """Return whether phi is significantly above 0."""
        return self.p_value < significance

    def interval(self, name: str) -> tuple[float, float]:
        """Return the 95% interval of `phi` or `beta`."""
        value, error = getattr(self, name), getattr(self, f"{name}_error")
        half = float(stdtrit(self.dof, 0.975)) * error
        return value - half, value + half


def estimate_stopping(
    sums: RankingSums, buckets: Sequence[str], *, min_support: int
) -> Stopping | None:
    """Return phi and beta, or None with little data.

    min_support: the least number of clicks that would follow a click at position 1 if phi were 0;
    beta needs as many that do follow one: the weights (1 - phi)^-m stand for clicks that are seen.
    buckets: names, whose arms are 2 i (kept) and 2 i + 1 (swapped) in the sums.
    """
    stops = sums.stops.sum(axis=1)  # over positions: blocks x 2
    total = stops.sum(axis=0)
    if total[OTHERWISE] < max(min_support, 1) * UNITS:
        return None
    phi = _phi(total)
    replicates = np.array([_phi(total - own) for own in stops])
    beta, beta_error = np.nan, np.nan
    if total[AFTER_CLICK] >= min_support * UNITS:
        beta, beta_error = _beta(sums, buckets, phi, replicates)
    error = float(np.sqrt(jackknife(replicates[:, None])[0, 0]))
    return Stopping(phi, error, beta, beta_error, len(replicates) - 1)


def _phi(total: np.ndarray) -> float:
    return float(1 - total[AFTER_CLICK] / total[OTHERWISE])


def _beta(
    sums: RankingSums, buckets: Sequence[str], phi: float, replicates: np.ndarray
) -> tuple[float, float]:
    """Return beta and its error: the slope of the log ratios over the distances, weighted."""
    weight = np.maximum(1 - np.append(phi, replicates), _MIN_STAY)[:, None] ** -np.arange(ABOVE)
    left_out = np.vstack([np.zeros(replicates.size), np.eye(replicates.size)])
    sessions = (sums.sessions.sum(axis=1) - left_out @ sums.sessions.T).T  # arms x replicates
    clicks = sums.clicks.sum(axis=1)[:, None] - np.einsum("rb,abpm->arpm", left_out, sums.clicks)
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = np.einsum("arpm,rm->arp", clicks, weight) / sessions[:, :, None]
        pairs = [pair for i, name in enumerate(buckets) for pair in _log_ratios(i, name, rates)]
    used = [(distance, ratio) for distance, ratio in pairs if np.isfinite(ratio).all()]
    if not used:
        return np.nan, np.nan
    distance = np.array([d for d, _ in used], float)
    ratio = np.stack([r for _, r in used])  # ratios x replicates, the estimate first
    precision = distance / np.maximum(np.diag(jackknife(ratio[:, 1:].T)), 1e-12)
    log_beta = precision @ ratio / (precision @ distance)
    beta = float(np.exp(log_beta[0]))
    return min(beta, 1.0), beta * float(np.sqrt(jackknife(log_beta[1:, None])[0, 0]))


def _log_ratios(i: int, name: str, rates: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield distances and log ratios of the documents that bucket i moves, both of an exchange."""
    bucket = parse_bucket(name)
    place = {position: s for s, position in enumerate(bucket.positions)}
    order = permutation(bucket, bucket.last_position)
    moves = {was + 1: now + 1 for now, was in enumerate(order) if was != now}
    kept, swapped = rates[2 * i], rates[2 * i + 1]
    for was, now in moves.items():
        over, under = kept[:, place[was]], swapped[:, place[now]]
        if moves[now] == was:
            if was < now:
                continue  # one entry stands for both documents
            over, under = over + swapped[:, place[was]], under + kept[:, place[now]]
        yield was - now, np.log(over) - np.log(under)
