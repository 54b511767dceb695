"""Models of browsing: what psi would be, given theta; and which of them the co-clicks prefer.

    independent   psi = theta_k theta_l
    continuous    psi = min(theta_k, theta_l)
    row_skipping  Kurennoy 2022 eq. 22-24: a row is skipped with probability gamma, and after
                  rank v the user goes on with probability C_v

Likelihood: of the co-clicks that two documents got in both arms of a bucket, the share in the
kept arm is binomial with odds (sessions kept x psi there) : (sessions swapped x psi there). The
documents' relevance and the scale of psi drop out. Links of one page are not independent, so this
is a composite likelihood; models are compared by BIC on it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from scipy.optimize import minimize

from ulr.propensity.swap_counts import Arm, BucketArms, SwapCounts

MODELS = ("independent", "continuous", "row_skipping")


@dataclass(frozen=True)
class Links:
    """Co-clicks (or clicks, k = l) of the same documents in both arms; indices from 0."""

    kept_at: tuple[np.ndarray, np.ndarray]
    swapped_at: tuple[np.ndarray, np.ndarray]
    kept: np.ndarray
    swapped: np.ndarray
    log_odds: np.ndarray

    def log_likelihood(self, psi: np.ndarray) -> float:
        """Binomial shares given psi; constants left out."""
        with np.errstate(divide="ignore"):
            log_psi = np.log(psi)
        x = self.log_odds + log_psi[self.kept_at] - log_psi[self.swapped_at]
        return float(-(self.kept @ np.logaddexp(0, -x) + self.swapped @ np.logaddexp(0, x)))


@dataclass(frozen=True)
class BrowsingFit:
    """A model's psi (symmetric, theta on the diagonal, theta(1) = 1) and how well it does.

    first: the model's own P(position 1 is examined), which relative propensities cannot show.
    """

    name: str
    psi: np.ndarray
    log_likelihood: float
    bic: float
    parameters: dict[str, float | list[float]] = field(default_factory=dict)
    note: str = ""
    first: float = 1.0

    @property
    def anchor_share(self) -> float:
        """psi(1, 2) / theta(2): 1 unless position 1 can be skipped on its own."""
        if self.psi.shape[0] < 2 or not np.isfinite(self.psi[0, 1]):
            return 1.0
        return float(self.psi[0, 1] / self.psi[1, 1])


def links_of(counts: SwapCounts, *, pairs: bool, known: np.ndarray) -> Links:
    """Every moved pair of documents (or document) of every bucket, within the known positions."""
    found: list[tuple[int, ...]] = []
    odds: list[float] = []
    for arms in counts.buckets.values():
        if not arms.kept.sessions or not arms.swapped.sessions:
            continue
        rows = _bucket_links(arms, counts.positions, pairs, known)
        found += rows
        odds += [np.log(arms.kept.sessions / arms.swapped.sessions)] * len(rows)
    table = np.array(found, dtype=np.int64).reshape(-1, 6)
    return Links(
        (table[:, 0], table[:, 1]),
        (table[:, 2], table[:, 3]),
        table[:, 4].astype(float),
        table[:, 5].astype(float),
        np.array(odds),
    )


def _bucket_links(
    arms: BucketArms, positions: int, pairs: bool, known: np.ndarray
) -> list[tuple[int, ...]]:
    moves = arms.moves
    everywhere = range(1, positions + 1)
    cells = list(combinations(everywhere, 2)) if pairs else [(p, p) for p in everywhere]
    rows = []
    for k, v in cells:
        a, b = moves.get(k, k), moves.get(v, v)
        there = (min(a, b), max(a, b))
        if there != (k, v) and max(k, v, a, b) <= positions:
            cell = (k - 1, v - 1, there[0] - 1, there[1] - 1)
            counted = _cell(arms.kept, cell[:2]), _cell(arms.swapped, cell[2:])
            if sum(counted) and known[list(cell)].all():
                rows.append((*cell, *counted))
    return rows


def _cell(arm: Arm, cell: tuple[int, ...]) -> int:
    return int(arm.together[cell[0], cell[1]])


def row_skipping_psi(gamma: float, continue_probability: np.ndarray, width: int) -> np.ndarray:
    """psi of eq. 22-24 for every pair, theta on the diagonal."""
    index = np.arange(continue_probability.size)
    row = index // width
    grid = np.ones((row[-1] + 1) * width)
    grid[: continue_probability.size] = continue_probability
    walked = np.cumprod(grid.reshape(-1, width), axis=1)
    in_row = np.hstack([np.ones((len(walked), 1)), walked[:, :-1]]).reshape(-1)[
        : continue_probability.size
    ]
    passed = gamma + (1 - gamma) * walked[:, -1]
    reach = np.concatenate([[1.0], np.cumprod(passed)])
    theta = reach[row] * (1 - gamma) * in_row
    rest = walked[row, -1] / in_row
    k, v = np.minimum.outer(index, index), np.maximum.outer(index, index)
    apart = theta[k] * rest[k] * reach[row[v]] / reach[row[k] + 1] * (1 - gamma) * in_row[v]
    return np.where(row[k] == row[v], theta[v], apart)


def fit_browsing(
    name: str, theta: np.ndarray, counts: SwapCounts | None, *, width: int
) -> tuple[BrowsingFit, list[BrowsingFit]]:
    """The named model, or for `auto` the one with the lowest BIC; and how all of them fared."""
    known = ~np.isnan(theta)
    co_clicks = links_of(counts, pairs=True, known=known) if counts is not None else None
    if co_clicks is None or co_clicks.kept.size == 0:
        if name in ("auto", "row_skipping"):
            note = f"no co-clicks in swaps to {'choose' if name == 'auto' else 'fit'} by"
            return _plug_in("independent", theta, None, note), []
        return _plug_in(name, theta, None, ""), []
    clicks = links_of(counts, pairs=False, known=known)
    fits = [
        _fit_rows(theta, clicks, co_clicks, width)
        if model == "row_skipping"
        else _plug_in(model, theta, co_clicks, "")
        for model in (MODELS if name == "auto" else (name,))
    ]
    return min(fits, key=lambda f: f.bic), fits


def _plug_in(name: str, theta: np.ndarray, links: Links | None, note: str) -> BrowsingFit:
    """psi from theta alone."""
    psi = np.outer(theta, theta) if name == "independent" else np.minimum.outer(theta, theta)
    np.fill_diagonal(psi, theta)
    if links is None:
        return BrowsingFit(name, psi, np.nan, np.nan, note=note)
    value = links.log_likelihood(psi)
    return BrowsingFit(name, psi, value, _bic(value, int(np.sum(~np.isnan(theta))) - 1, links))


def _bic(log_likelihood: float, parameters: int, links: Links) -> float:
    return parameters * float(np.log(links.kept.sum() + links.swapped.sum())) - 2 * log_likelihood


def _fit_rows(theta: np.ndarray, clicks: Links, co_clicks: Links, width: int) -> BrowsingFit:
    """gamma and C_v that make clicks and co-clicks most likely; ranks without data stay put."""

    def unpack(x: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(-x))
        return row_skipping_psi(p[0], p[1:], width)

    def loss(x: np.ndarray) -> float:
        psi = unpack(x)
        lost = clicks.log_likelihood(psi) + co_clicks.log_likelihood(psi)
        return -lost / scale + 1e-7 * float(x @ x)

    scale = max(co_clicks.kept.sum() + co_clicks.swapped.sum(), 1.0)
    start = np.concatenate([[-1.0], np.full(theta.size, 2.0)])
    best = minimize(loss, start, method="L-BFGS-B", bounds=[(-12, 12)] * start.size)
    psi = unpack(best.x)
    value = co_clicks.log_likelihood(psi)
    known = ~np.isnan(theta)
    gamma, *continue_probability = (1 / (1 + np.exp(-best.x))).tolist()
    psi = np.where(np.outer(known, known), psi / psi[0, 0], np.nan)
    # the last rank's C_v has no rank below it to speak of
    parameters = {
        "gamma": gamma,
        "continue_probability": continue_probability[:-1],
        "width": float(width),
    }
    bic = _bic(value, int(known.sum()), co_clicks)
    return BrowsingFit("row_skipping", psi, value, bic, parameters, first=1 - gamma)
