"""A curve from swaps that rank changes extend to other positions (docs/methods.md section 3.13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ulr.propensity.curve import HARVESTED, ThetaCurve

EXTENDED = "combined+all_pairs"  # the estimator of such a curve


def extend_curve(swaps: ThetaCurve, harvest: ThetaCurve, reached: Sequence[int]) -> ThetaCurve:
    """Return the estimates of swaps at `reached`, and those of rank changes elsewhere.

    A position k that swaps do not reach is linked to b, the nearest position above it that both
    curves have: log theta(k) is that of b from swaps, plus the harvested log theta(k) - log
    theta(b). An error of harvesting counts from b on only. reached: positions of all traffic, from
    1; a segment whose swaps have too few clicks at one of them has no estimate there.
    """
    size = swaps.positions
    from_swaps = np.isin(np.arange(1, size + 1), reached) & ~np.isnan(swaps.theta)
    harvested = ~np.isin(np.arange(1, size + 1), reached) & ~np.isnan(harvest.theta)
    shared = np.flatnonzero(from_swaps & ~np.isnan(harvest.theta))
    of_swaps, of_harvest = np.diag(from_swaps.astype(float)), np.zeros((size, size))
    source, note = list(swaps.source), list(swaps.note)
    for k in np.flatnonzero(harvested).tolist():
        above = int(shared[shared < k][-1])
        of_swaps[k, above] = of_harvest[k, k] = 1
        of_harvest[k, above] -= 1
        source[k] = HARVESTED
        note[k] = f"from rank changes relative to position {above + 1}; swaps: {swaps.note[k]}"
    known = from_swaps | harvested
    covariance = _mapped(of_swaps, swaps) + _mapped(of_harvest, harvest)
    covariance[~known, :] = covariance[:, ~known] = np.nan
    log_theta = of_swaps @ _log_theta(swaps) + of_harvest @ _log_theta(harvest)
    return replace(
        swaps,
        estimator=EXTENDED,
        theta=np.where(known, np.exp(log_theta), np.nan),
        covariance=covariance,
        support=np.where(harvested, harvest.support, swaps.support),
        source=source,
        note=note,
        components=_components(swaps, known),
        dof=min(swaps.dof, harvest.dof) if harvested.any() else swaps.dof,
    )


def _log_theta(curve: ThetaCurve) -> np.ndarray:
    return np.nan_to_num(np.log(curve.theta))


def _mapped(matrix: np.ndarray, curve: ThetaCurve) -> np.ndarray:
    """Return the covariance of a linear function of log theta."""
    result: np.ndarray = matrix @ np.nan_to_num(curve.covariance) @ matrix.T
    return result


def _components(swaps: ThetaCurve, known: np.ndarray) -> list[list[int]]:
    """Return the known positions, then what is left of the components that swaps do not link."""
    linked = (np.flatnonzero(known) + 1).tolist()
    rest = [[p for p in part if p not in linked] for part in swaps.components[1:]]
    return [linked, *[part for part in rest if part]]
