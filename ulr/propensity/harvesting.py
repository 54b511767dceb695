"""theta without an experiment: the same document seen at several positions, because rankings
changed by themselves (Agarwal et al. 2019, intervention harvesting).

Of the documents seen at both k and l, A(k, l) is the weighted number of clicks at k, with equal
total weight at both, so E A(k, l) / E A(l, k) = theta(k) / theta(l). Three ways to use the table:
pivot compares each position with the first, adjacent multiplies neighbours' ratios, all_pairs fits
all of it. Standard errors come from leaving out one block of queries at a time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ulr.propensity.curve import Curve
from ulr.propensity.least_squares import connected_components, name_nodes

ROUNDS = 100  # five to ten do
CLOSE = 1e-10
ONE_BLOCK = "it hangs on one block of queries, so its error is unknown; more queries are needed"


def harvest_clicks(table: pa.Table, positions: int) -> np.ndarray:
    """Weighted clicks A per (block, k, l), from rows of `harvest_schema`."""
    blocks = int(np.max(table["block"].to_numpy(), initial=0)) + 1
    k, v = table["k"].to_numpy() - 1, table["l"].to_numpy() - 1
    inside = (k < positions) & (v < positions)
    at = (table["block"].to_numpy()[inside], k[inside], v[inside])
    clicks = np.zeros((blocks, positions, positions))
    np.add.at(clicks, at, table["clicks"].to_numpy()[inside])
    return clicks


def pivot(clicks: np.ndarray) -> np.ndarray:
    """theta(k) = A(k, 1) / A(1, k)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = clicks[:, 0] / clicks[0, :]
    theta[0] = 1.0
    return theta


def adjacent(clicks: np.ndarray) -> np.ndarray:
    """theta(k) = product over j <= k of A(j, j - 1) / A(j - 1, j)."""
    down, up = np.diag(clicks, -1), np.diag(clicks, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.concatenate([[1.0], np.cumprod(down / up)])


def all_pairs(clicks: np.ndarray) -> np.ndarray:
    """The theta that make all of A most likely, as the shares theta_k / (theta_k + theta_l).

    Given A(k, l) + A(l, k), the relevance of the documents drops out and what is left is the
    Bradley-Terry model. Its likelihood is concave in log theta, so Newton's steps find the one
    maximum however long the chain of comparisons is. It has one for the positions that clicks
    both ways link with position 1; others are NaN.
    """
    both = np.argwhere(np.minimum(clicks, clicks.T) > 0).tolist()
    index = np.array(connected_components(range(len(clicks)), both)[0])
    found = np.full(len(clicks), np.nan)
    found[index] = np.exp(_bradley_terry(clicks[np.ix_(index, index)]))
    return found


def _bradley_terry(clicks: np.ndarray) -> np.ndarray:
    """log theta, 0 for the first. Steps are halved where they would overshoot."""
    total, won = clicks + clicks.T, clicks.sum(axis=1)

    def likelihood(x: np.ndarray) -> float:
        return -float(np.sum(clicks * np.logaddexp(0, x[None] - x[:, None])))

    x = np.zeros(len(clicks))
    for _ in range(ROUNDS):
        share = 1 / (1 + np.exp(x[None] - x[:, None]))
        weight = total * share * share.T
        curvature = np.diag(weight.sum(axis=1)) - weight
        slope = won - (total * share).sum(axis=1)
        step = np.zeros_like(x)
        step[1:] = np.linalg.solve(curvature[1:, 1:], slope[1:])
        before = likelihood(x)
        while likelihood(x + step) < before and np.max(np.abs(step)) > CLOSE:
            step /= 2
        x = x + step
        if np.max(np.abs(step)) <= CLOSE:
            break
    return x


FORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "all_pairs": all_pairs,
    "pivot": pivot,
    "adjacent": adjacent,
}


def harvested_curve(table: pa.Table, positions: int, *, form: str, min_clicks: int) -> Curve:
    """theta for the positions that the form links with position 1 by enough clicks."""
    clicks = harvest_clicks(table, positions)
    total = clicks.sum(axis=0)
    used = np.minimum(total, total.T) * _edges(form, positions)
    support = used.sum(axis=1)
    enough = support >= min_clicks
    enough[0] = True
    edges = np.argwhere((used > 0) & np.outer(enough, enough)) + 1
    nodes = [p for p in range(1, positions + 1) if enough[p - 1]]
    components = connected_components(nodes, [(int(a), int(b)) for a, b in edges])
    linked = components[0]
    index = np.array(linked) - 1
    theta, covariance = np.full(positions, np.nan), np.full((positions, positions), np.nan)
    inside = np.ix_(range(len(clicks)), index, index)
    theta[index], covariance[np.ix_(index, index)] = _jackknife(clicks[inside], FORMS[form])
    refused = _reasons(components, support, enough, min_clicks)
    refused |= {p: ONE_BLOCK for p in linked if np.isnan(theta[p - 1])}
    places = range(1, positions + 1)
    return Curve(
        form,
        theta,
        covariance,
        np.rint(support).astype(np.int64),
        ["insufficient" if p in refused else "estimated" for p in places],
        [refused.get(p, "") for p in places],
        components,
        freedom=max(np.count_nonzero(clicks.any(axis=(1, 2))) - 1, 1),
    )


def _edges(form: str, positions: int) -> np.ndarray:
    """Which comparisons a form makes."""
    edges = np.zeros((positions, positions), bool)
    if form == "pivot":
        edges[0, 1:] = edges[1:, 0] = True
    elif form == "adjacent":
        edges = np.eye(positions, k=1, dtype=bool) | np.eye(positions, k=-1, dtype=bool)
    else:
        edges[:] = ~np.eye(positions, dtype=bool)
    return edges


def _reasons(
    components: list[list[int]], support: np.ndarray, enough: np.ndarray, min_clicks: int
) -> dict[int, str]:
    refused = {
        int(i) + 1: f"{support[i]:.1f} weighted clicks of documents that changed rank, "
        f"{min_clicks:,} needed: {np.ceil(min_clicks / max(support[i], 1)):.0f} such logs would do"
        for i in np.flatnonzero(~enough)
    }
    for other in components[1:]:
        why = f"nothing links {name_nodes(other)} with {name_nodes(components[0])}"
        refused |= dict.fromkeys(other, why)
    return refused


def _jackknife(
    clicks: np.ndarray, form: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate from all blocks, and the covariance of its log from leaving each block out.

    NaN where some block cannot be left out: without it there is no estimate to compare with.
    """
    total = clicks.sum(axis=0)
    theta = form(total)
    with np.errstate(divide="ignore", invalid="ignore"):
        without = np.log([form(total - block) for block in clicks])
    without[:, 0] = 0.0  # position 1 is the unit, whatever is left out
    without[:, ~np.isfinite(without).all(axis=0)] = np.nan
    centred = without - without.mean(axis=0)
    covariance = centred.T @ centred * (len(clicks) - 1) / len(clicks)
    return np.where(np.isnan(np.diag(covariance)), np.nan, theta), covariance
