"""theta without an experiment: intervention harvesting (Agarwal et al. 2019).

Rankings change, so a document is shown at several positions. Over the documents seen at both k and
l, A(k, l) is the weighted number of clicks at k, with equal total weight at both positions, so
E A(k, l) / E A(l, k) = theta(k) / theta(l) (docs/methods.md section 3.6).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ulr.propensity.components import connected_components, unlinked_reasons
from ulr.propensity.curve import ThetaCurve, jackknife, make_curve

MAX_STEPS = 100  # Newton's method needs five to ten
TOLERANCE = 1e-10
ONE_BLOCK = (
    "only one block of queries supports it, so it has no standard error; more queries are needed"
)


def pivot(clicks: np.ndarray) -> np.ndarray:
    """theta(k) = A(k, 1) / A(1, k)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = clicks[:, 0] / clicks[0, :]
    theta[0] = 1.0
    return theta


def adjacent(clicks: np.ndarray) -> np.ndarray:
    """theta(k) = product over j <= k of A(j, j - 1) / A(j - 1, j)."""
    lower, upper = np.diag(clicks, -1), np.diag(clicks, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.concatenate([[1.0], np.cumprod(lower / upper)])


def all_pairs(clicks: np.ndarray) -> np.ndarray:
    """Fit the Bradley-Terry model to A(k, l) / (A(k, l) + A(l, k)).

    Positions that are not linked with position 1 by clicks at both ends are NaN.
    """
    edges = [(int(k), int(v)) for k, v in np.argwhere(np.minimum(clicks, clicks.T) > 0)]
    linked = np.array(connected_components(range(len(clicks)), edges)[0])
    theta = np.full(len(clicks), np.nan)
    theta[linked] = np.exp(_bradley_terry(clicks[np.ix_(linked, linked)]))
    return theta


def _bradley_terry(clicks: np.ndarray) -> np.ndarray:
    """Return log theta, 0 for the first. Newton's method: the likelihood is concave."""
    total, won = clicks + clicks.T, clicks.sum(axis=1)

    def likelihood(x: np.ndarray) -> float:
        return -float(np.sum(clicks * np.logaddexp(0, x[None] - x[:, None])))

    x = np.zeros(len(clicks))
    for _ in range(MAX_STEPS):
        share = 1 / (1 + np.exp(x[None] - x[:, None]))
        weight = total * share * share.T
        curvature = np.diag(weight.sum(axis=1)) - weight
        slope = won - (total * share).sum(axis=1)
        step = np.zeros_like(x)
        step[1:] = np.linalg.solve(curvature[1:, 1:], slope[1:])
        before = likelihood(x)
        while likelihood(x + step) < before and np.max(np.abs(step)) > TOLERANCE:
            step /= 2
        x = x + step
        if np.max(np.abs(step)) <= TOLERANCE:
            break
    return x


FORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "all_pairs": all_pairs,
    "pivot": pivot,
    "adjacent": adjacent,
}


class Linked(NamedTuple):
    """Positions with enough clicks that are linked with position 1.

    support: (K,) clicks; enough: (K,) bool; components: of the positions with enough, from 1;
    positions: int64, the linked ones, from 0.
    """

    support: np.ndarray
    enough: np.ndarray
    components: list[list[int]]
    positions: np.ndarray


def harvested_curve(table: pa.Table, positions: int, *, form: str, min_clicks: int) -> ThetaCurve:
    """Estimate the positions that enough clicks link with position 1; table: `harvest_schema`."""
    clicks = sums_by_block(table, positions, "clicks")
    support, enough, components, linked = find_linked(clicks.sum(axis=0), form, min_clicks)
    theta, covariance = np.full(positions, np.nan), np.full((positions, positions), np.nan)
    log_theta = leave_one_out(clicks[np.ix_(np.arange(len(clicks)), linked, linked)], FORMS[form])
    log_theta[:, ~np.isfinite(log_theta).all(axis=0)] = np.nan
    theta[linked], covariance[np.ix_(linked, linked)] = (
        np.exp(log_theta[0]),
        jackknife(log_theta[1:]),
    )
    reasons = {int(i) + 1: _too_few(float(support[i]), min_clicks) for i in np.flatnonzero(~enough)}
    reasons |= unlinked_reasons(components, components[0])
    reasons |= {int(i) + 1: ONE_BLOCK for i in linked if np.isnan(theta[i])}
    return make_curve(
        form, theta, covariance, np.rint(support).astype(np.int64), reasons, components=components,
        dof=max(int(np.count_nonzero(clicks.any(axis=(1, 2)))) - 1, 1),
    )  # fmt: skip


def _too_few(support: float, needed: int) -> str:
    if support == 0:
        return f"no clicks on documents that changed position, {needed:,} needed"
    return (
        f"{support:.1f} weighted clicks on documents that changed position, {needed:,} needed; a "
        f"log {np.ceil(needed / max(support, 1)):.0f} times as large would suffice"
    )


def sums_by_block(table: pa.Table, positions: int, name: str) -> np.ndarray:
    """Return a column of `harvest_schema` per block: float64, (blocks, positions, positions)."""
    block, k, v = (table[key].to_numpy() for key in ("block", "k", "l"))
    inside = (k <= positions) & (v <= positions)
    sums = np.zeros((int(np.max(block, initial=0)) + 1, positions, positions))
    index = (block[inside], k[inside] - 1, v[inside] - 1)
    np.add.at(sums, index, table[name].to_numpy()[inside])
    return sums


def find_linked(clicks: np.ndarray, form: str, min_clicks: int) -> Linked:
    """Return which positions the weighted clicks (K, K) of all blocks identify."""
    compared = np.minimum(clicks, clicks.T) * _comparisons(form, len(clicks))
    support = compared.sum(axis=1)
    enough = support >= min_clicks
    enough[0] = True
    edges = np.argwhere((compared > 0) & np.outer(enough, enough)) + 1
    nodes = (np.flatnonzero(enough) + 1).tolist()
    components = connected_components(nodes, [(int(a), int(b)) for a, b in edges])
    return Linked(support, enough, components, np.array(components[0]) - 1)


def _comparisons(form: str, positions: int) -> np.ndarray:
    """Return which pairs of positions a form compares: bool, (positions, positions)."""
    row, column = np.indices((positions, positions))
    if form == "pivot":
        return (row == 0) != (column == 0)
    if form == "adjacent":
        return np.abs(row - column) == 1
    return row != column


def leave_one_out(clicks: np.ndarray, form: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return log theta of all blocks, then without each: (1 + blocks, positions), 0 for the first.

    It is not finite where the blocks that are left have no clicks.
    """
    total = clicks.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_theta = np.log([form(total), *(form(total - block) for block in clicks)])
    log_theta[:, 0] = 0.0
    return log_theta
