"""Browsing models: psi as a function of theta, and which model the co-clicks prefer.

    independent   psi = theta_k theta_l
    continuous    psi = min(theta_k, theta_l)
    row_skipping  Kurennoy 2022 eq. 22-24: a row is skipped with probability gamma, and after
                  rank v the user continues with probability C_v

Models are compared by BIC on the composite likelihood of the co-clicks in experiments
(docs/methods.md section 3.5).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy  # loads scipy.optimize, which takes 0.3 s, when it is used
from threadpoolctl import threadpool_limits

from ulr.propensity.likelihood import Observed, observe
from ulr.propensity.swap_counts import SwapCounts

MODELS = ("independent", "continuous", "row_skipping")


@dataclass(frozen=True)
class BrowsingFit:
    """psi of a model (symmetric, theta on the diagonal, theta(1) = 1) and its likelihood.

    theta_1: P(position 1 is examined): as given, else under the model; clicks identify relative
    values only.
    """

    name: str
    psi: np.ndarray
    log_likelihood: float = np.nan
    bic: float = np.nan
    parameters: dict[str, float | list[float]] = field(default_factory=dict)
    note: str = ""
    theta_1: float = 1.0

    @property
    def first_given_second(self) -> float:
        """P(e_1 | e_2) = psi(1, 2) / theta(2): 1 unless position 1 can be skipped."""
        if self.psi.shape[0] < 2 or not np.isfinite(self.psi[0, 1]):
            return 1.0
        return float(self.psi[0, 1] / self.psi[1, 1])


def row_skipping_psi(gamma: float, continue_probability: np.ndarray, width: int) -> np.ndarray:
    """Return psi of eq. 22-24 for every pair (positions x positions), theta on the diagonal."""
    positions = continue_probability.size
    index = np.arange(positions)
    row = index // width
    grid = np.ones((row[-1] + 1) * width)
    grid[:positions] = continue_probability
    walked = np.cumprod(grid.reshape(-1, width), axis=1)
    in_row = np.hstack([np.ones((len(walked), 1)), walked[:, :-1]]).reshape(-1)[:positions]
    passed = gamma + (1 - gamma) * walked[:, -1]
    reach = np.concatenate([[1.0], np.cumprod(passed)])
    theta = reach[row] * (1 - gamma) * in_row
    rest = walked[row, -1] / in_row
    k, v = np.minimum.outer(index, index), np.maximum.outer(index, index)
    apart = theta[k] * rest[k] * reach[row[v]] / reach[row[k] + 1] * (1 - gamma) * in_row[v]
    return np.where(row[k] == row[v], theta[v], apart)


def fit_browsing(
    name: str,
    theta: np.ndarray,
    counts: SwapCounts | None,
    *,
    width: int,
    theta_1: float | None = None,
) -> tuple[BrowsingFit, list[BrowsingFit]]:
    """Return the named model, or with `auto` that of the lowest BIC; and all fitted models.

    theta_1: P(position 1 is examined), if known; without it row_skipping fits it, and the other
    models assume 1. Without co-clicks in experiments `auto` and `row_skipping` become
    `independent`.
    """
    known = ~np.isnan(theta)
    if counts is not None:
        co_clicks = observe(counts, pairs=True, known=known)
        if co_clicks.total:
            clicks = observe(counts, pairs=False, known=known)
            fits = [
                _fit_row_skipping(theta, clicks, co_clicks, width, theta_1)
                if model == "row_skipping"
                else _fit_by_theta(model, theta, co_clicks, theta_1 or 1.0)
                for model in (MODELS if name == "auto" else (name,))
            ]
            return min(fits, key=lambda fit: fit.bic), fits
    note = ""
    if name in ("auto", "row_skipping"):
        action = "choose a model" if name == "auto" else "fit row_skipping"
        note = f"cannot {action}: no co-clicks in experiments"
        name = "independent"
    psi = psi_by_theta(name, theta, theta_1 or 1.0)
    return BrowsingFit(name, psi, note=note, theta_1=theta_1 or 1.0), []


def psi_by_theta(name: str, theta: np.ndarray, theta_1: float) -> np.ndarray:
    """Return psi of the models `independent` and `continuous`, theta on the diagonal.

    Both are relative to P(position 1 is examined) = theta_1, so the product has it as a factor.
    """
    product = name == "independent"
    psi = theta_1 * np.outer(theta, theta) if product else np.minimum.outer(theta, theta)
    np.fill_diagonal(psi, theta)
    return psi


def _fit_by_theta(name: str, theta: np.ndarray, co_clicks: Observed, theta_1: float) -> BrowsingFit:
    psi = psi_by_theta(name, theta, theta_1)
    value = co_clicks.log_likelihood(psi)
    free = int(np.sum(~np.isnan(theta))) - 1
    return BrowsingFit(name, psi, value, bic(value, free, co_clicks), theta_1=theta_1)


def bic(log_likelihood: float, parameters: int, co_clicks: Observed) -> float:
    """Return the Bayesian information criterion of a model of the co-clicks."""
    return parameters * float(np.log(co_clicks.total)) - 2 * log_likelihood


def _fit_row_skipping(
    theta: np.ndarray,
    clicks: Observed,
    co_clicks: Observed,
    width: int,
    theta_1: float | None,
) -> BrowsingFit:
    """Fit gamma and C_v by maximum likelihood; a small penalty bounds those without data.

    With a known theta_1, gamma is 1 - theta_1.
    """

    def probabilities(x: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-x))

    def psi_at(x: np.ndarray) -> np.ndarray:
        p = probabilities(x)
        return row_skipping_psi(p[0], p[1:], width)

    def loss(x: np.ndarray) -> float:
        psi = psi_at(x)
        likelihood = clicks.log_likelihood(psi) + co_clicks.log_likelihood(psi)
        return -likelihood / scale + 1e-7 * float(x @ x)

    scale = max(co_clicks.total, 1.0)
    start = np.concatenate([[-1.0], np.full(theta.size, 2.0)])
    bounds = [(-12.0, 12.0)] * start.size
    if theta_1 is not None:
        skipped = np.clip(1 - theta_1, 1e-5, 1 - 1e-5)
        start[0] = np.log(skipped / (1 - skipped))
        bounds[0] = (start[0], start[0])
    minimize = scipy.optimize.minimize
    # A step takes 3 ms with several BLAS threads and 10 µs with one: the matrices are tiny.
    with threadpool_limits(1, user_api="blas"):
        best = minimize(loss, start, method="L-BFGS-B", bounds=bounds).x
    psi = psi_at(best)
    value = co_clicks.log_likelihood(psi)
    known = ~np.isnan(theta)
    gamma, *continue_probability = probabilities(best).tolist()
    parameters = {
        "gamma": gamma,
        "continue_probability": continue_probability[:-1],  # nothing follows the last rank
        "width": float(width),
    }
    psi = np.where(np.outer(known, known), psi / psi[0, 0], np.nan)
    score = bic(value, int(known.sum()) - (theta_1 is not None), co_clicks)
    return BrowsingFit("row_skipping", psi, value, score, parameters, theta_1=1 - gamma)
