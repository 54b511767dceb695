"""theta where clicks do not suffice: imputed along a curve (docs/methods.md section 3.11).

    log theta(k) = -eta log k - lambda (k - 1) + walk(log k)

eta is free, lambda has a normal prior with mean 0, and the walk is a random walk that begins at 0
at position 1. The best linear unbiased prediction of the other positions is a linear function F of
the estimates, so its covariance is F C F' and a misfit term of lambda and the walk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ulr.propensity.browsing import BrowsingFit, psi_by_theta
from ulr.propensity.curve import IMPUTED, ThetaCurve

LAMBDA_SD = 0.2  # of the prior on lambda, per position
WALK_VARIANCE = 0.03  # of log theta, per unit of log k
BY_THETA = ("independent", "continuous")  # models whose psi is a function of theta


@dataclass(frozen=True)
class _Fit:
    """forward: prediction of all positions from the estimates of log theta, a matrix."""

    eta: float
    lambda_: float
    forward: np.ndarray

    @property
    def falls(self) -> bool:
        """Whether neither term rises with position."""
        return self.eta >= 0 and self.lambda_ >= 0


def impute_theta(curve: ThetaCurve, least: np.ndarray | None = None) -> ThetaCurve:
    """Return the curve with a theta for every position, unless only position 1 has one.

    An imputed theta is at most that of the position above, and at least `least`.
    """
    known, missing = np.flatnonzero(~np.isnan(curve.theta)), np.flatnonzero(np.isnan(curve.theta))
    others = known[known > 0]
    if not missing.size or not others.size or np.isnan(curve.theta[0]):
        return curve
    own = curve.covariance[np.ix_(others, others)]
    log_theta = np.log(curve.theta[others])
    fit = _fit(log_theta, others, own, curve.positions)
    theta, forward = curve.theta.copy(), _identity(others, curve.positions)
    predicted = fit.forward @ log_theta
    for i in missing.tolist():
        theta[i], forward[i] = np.exp(predicted[i]), fit.forward[i]
        if theta[i] > theta[i - 1]:
            theta[i], forward[i] = theta[i - 1], forward[i - 1]
        if least is not None:
            theta[i] = max(theta[i], min(least[i], theta[i - 1]))
    covariance = forward @ own @ forward.T
    covariance[np.ix_(missing, missing)] += _misfit(fit, others)[np.ix_(missing, missing)]
    eta, lambda_ = abs(fit.eta), abs(fit.lambda_)  # -0.0 has a sign
    text = f"log theta = -{eta:.2f} log k - {lambda_:.3f} (k - 1)"
    source, note = list(curve.source), list(curve.note)
    for i in missing.tolist():
        source[i], note[i] = IMPUTED, "; ".join(filter(None, (text, note[i])))
    alpha, beta = _trust(curve, theta, known, missing)
    by_position = np.zeros((curve.positions, curve.positions))
    by_position[:, others] = forward
    return replace(
        curve, theta=theta, covariance=covariance, source=source, note=note, alpha=alpha,
        beta=beta, forward=by_position,
    )  # fmt: skip


def least_theta(clicks: np.ndarray) -> np.ndarray:
    """Return lower bounds of theta from the clicks by position on pages as ranked.

    Where relevance does not rise with position, theta is at least the ratio of the clicks to those
    at position 1; the bound is two standard errors below it.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = clicks / clicks[0] * np.exp(-2 * np.sqrt(1 / clicks + 1 / clicks[0]))
    return np.where((clicks > 0) & (clicks[0] > 0), bound, 0.0)


def _fit(log_theta: np.ndarray, known: np.ndarray, covariance: np.ndarray, positions: int) -> _Fit:
    """Fit the curve; a term that would rise with position is left out."""

    def predict(*, power: bool = True, exponential: bool = True) -> _Fit:
        sd = LAMBDA_SD if exponential else 0.0
        return _predict(log_theta, known, covariance, positions, power=power, lambda_sd=sd)

    fit = predict()
    if fit.eta < 0:
        fit = predict(power=False)
    elif fit.lambda_ < 0:
        fit = predict(exponential=False)
    return fit if fit.falls else predict(power=False, exponential=False)


def _predict(
    log_theta: np.ndarray,
    known: np.ndarray,
    covariance: np.ndarray,
    positions: int,
    *,
    power: bool,
    lambda_sd: float,
) -> _Fit:
    """Return the best linear unbiased prediction; without `power`, eta is 0."""
    log_k, steps = np.log(np.arange(1, positions + 1)), np.arange(positions)
    prior = _prior(positions, lambda_sd)
    weight = np.linalg.inv(covariance + prior[np.ix_(known, known)])
    x = log_k[known]
    of_eta = x @ weight / (x @ weight @ x) if power else np.zeros(known.size)  # -eta = of_eta @ y
    residual = np.eye(known.size) - np.outer(x, of_eta)
    forward = np.outer(log_k, of_eta) + prior[:, known] @ weight @ residual
    of_lambda = lambda_sd**2 * steps[known] @ weight @ residual
    return _Fit(-float(of_eta @ log_theta), -float(of_lambda @ log_theta), forward)


def _prior(positions: int, lambda_sd: float) -> np.ndarray:
    """Return the prior covariance of the walk and the term in lambda, positions x positions."""
    log_k, steps = np.log(np.arange(1, positions + 1)), np.arange(positions)
    return WALK_VARIANCE * np.minimum.outer(log_k, log_k) + lambda_sd**2 * np.outer(steps, steps)


def _misfit(fit: _Fit, known: np.ndarray) -> np.ndarray:
    """Return the covariance of the prediction of exactly known log theta at `known`."""
    prior = _prior(len(fit.forward), LAMBDA_SD)
    across = fit.forward @ prior[known]
    return prior - across - across.T + across[:, known] @ fit.forward.T


def _identity(known: np.ndarray, positions: int) -> np.ndarray:
    forward = np.zeros((positions, known.size))
    forward[known, np.arange(known.size)] = 1
    return forward


def _trust(
    curve: ThetaCurve, theta: np.ndarray, known: np.ndarray, missing: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return alpha and beta; beta / theta stays that of the estimated position above."""
    if curve.alpha is None or curve.beta is None:
        return None, None
    above = known[np.searchsorted(known, missing) - 1]
    alpha, beta = curve.alpha.copy(), curve.beta.copy()
    alpha[missing] = curve.alpha[0] * theta[missing]
    beta[missing] = curve.beta[above] / curve.theta[above] * theta[missing]
    return alpha, beta


def extend_psi(fit: BrowsingFit, curve: ThetaCurve) -> BrowsingFit:
    """Return the model with psi of the imputed positions too.

    Models that are not functions of theta keep P(k examined | l examined) for k < l of the pair of
    estimated positions above, at the same distance if k is imputed too.
    """
    known = ~np.isnan(np.diag(fit.psi))
    if known.all() or not np.isin(IMPUTED, curve.source):
        return fit
    if fit.name in BY_THETA:
        return replace(fit, psi=psi_by_theta(fit.name, curve.theta, fit.theta_1))
    above = np.maximum.accumulate(np.where(known, np.arange(known.size), 0))
    psi = fit.psi.copy()
    for v in range(1, known.size):
        for k in range(v):
            if not (known[k] and known[v]):
                low, deep = above[k], above[v]
                if low >= deep:
                    low = above[max(deep - (v - k), 0)]
                given = fit.psi[low, deep] / fit.psi[deep, deep] if deep > low else 1.0
                psi[k, v] = psi[v, k] = curve.theta[v] * given
    missing = np.flatnonzero(~known)
    psi[missing, missing] = curve.theta[missing]
    return replace(fit, psi=psi)
