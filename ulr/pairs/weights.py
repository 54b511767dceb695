"""Pair weights of every method (METHODS section 4) as tables over two positions.

In a session a pair (i, j) is one of four types: both clicked, i only, j only, none (Kurennoy's
s(c), eq. 6). A method is the weight it gives "i should be above j" for each type and each pair of
positions: an array of 4 x K x K. What a group contributes is then that table times the number of
its sessions of each type. For `joint` the table is the second row of A (Kurennoy eq. 9).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ulr.errors import UserError
from ulr.propensity.examination import Examination

BOTH, FIRST, SECOND, NONE = range(4)


def naive_weight(given: Examination, prs_clip: float) -> np.ndarray:
    """c_i (1 - c_j)."""
    return _only_first(np.ones_like(given.psi))


def robust_weight(given: Examination, prs_clip: float) -> np.ndarray:
    """a_i c_i (1 - c_j), Kurennoy eq. 26."""
    return _only_first(_by_row(1 / given.theta))


def ips_all_weight(given: Examination, prs_clip: float) -> np.ndarray:
    """a_i c_i for every j, PRS eq. 5."""
    table = _only_first(_by_row(1 / given.theta))
    table[BOTH] = table[FIRST]
    return table


def pns_weight(given: Examination, prs_clip: float) -> np.ndarray:
    """theta_j c_i (1 - c_j), PRS section 4.1."""
    return _only_first(_by_row(given.theta).T)


def prs_weight(given: Examination, prs_clip: float) -> np.ndarray:
    """min(gamma, theta_j / theta_i) c_i (1 - c_j), PRS eq. 9 and 11."""
    return _only_first(np.minimum(prs_clip, given.theta / given.theta[:, None]))


def joint_weight(given: Examination, prs_clip: float) -> np.ndarray:
    """a_i c_i (1 - c_j) + (a_i - a_ij) c_i c_j, Kurennoy eq. 9-10."""
    table = _only_first(_by_row(1 / given.theta))
    table[BOTH] = table[FIRST] - 1 / given.psi
    return table


def affine_weight(given: Examination, prs_clip: float) -> np.ndarray:
    """rhat_i (1 - rhat_j) with rhat = (c - beta) / alpha, Oosterhuis eq. 6."""
    if given.alpha is None or given.beta is None:
        raise UserError(
            "method affine needs alpha and beta, and these propensities have none; set "
            "propensities.estimator=affine and run `ulr propensities` again"
        )
    clicked, not_clicked = (1 - given.beta) / given.alpha, -given.beta / given.alpha
    sides = {BOTH: (clicked, clicked), FIRST: (clicked, not_clicked),
             SECOND: (not_clicked, clicked), NONE: (not_clicked, not_clicked)}  # fmt: skip
    return np.stack([np.outer(i, 1 - j) for _, (i, j) in sorted(sides.items())])


METHODS: dict[str, Callable[[Examination, float], np.ndarray]] = {
    "naive": naive_weight,
    "robust": robust_weight,
    "ips-all": ips_all_weight,
    "pns": pns_weight,
    "prs": prs_weight,
    "joint": joint_weight,
    "affine": affine_weight,
    "unbiased-lambdamart": naive_weight,  # counts; t+ and t- are learned
}
LABELS = "labels"  # the skyline: differences of golden labels' gains, no clicks
DIVIDES_BY = {"joint": ("psi",), "affine": ("alpha",)}  # besides theta
NEEDS_ALL_PAIRS = ("affine",)  # a pair without a click has a weight too
METHOD_NAMES = (*METHODS, LABELS)


def weight_table(
    method: str,
    given: Examination,
    *,
    prs_clip: float = np.inf,
    propensity_floor: float = 0.0,
    weight_cap: float = np.inf,
) -> np.ndarray:
    """The method's 4 x K x K table after clipping.

    gamma: PRS's cap on the ratio. propensity_floor: theta and psi are taken as at least this.
    weight_cap: no weight of one session is larger than this, in absolute value.
    """
    if method not in METHODS:
        raise UserError(f"method = {method!r}: expected one of {', '.join(METHOD_NAMES)}")
    used = _floored(given, propensity_floor)
    _check(used, ("theta", *DIVIDES_BY.get(method, ())))
    table = METHODS[method](used, prs_clip)
    return np.clip(table, -weight_cap, weight_cap)


def _floored(given: Examination, floor: float) -> Examination:
    alpha = None if given.alpha is None else np.maximum(given.alpha, floor)
    return replace(
        given,
        theta=np.maximum(given.theta, floor),
        psi=np.maximum(given.psi, floor),
        alpha=alpha,
    )


def _check(given: Examination, needed: Sequence[str]) -> None:
    k = given.theta.size
    if given.psi.shape != (k, k):
        raise UserError(f"psi has shape {given.psi.shape}; theta has {k} positions")
    for name in needed:
        values = getattr(given, name)
        if values is not None and not (np.isfinite(values).all() and (values > 0).all()):
            at = np.argwhere(~(np.isfinite(values) & (values > 0)))[0] + 1
            where = ", ".join(map(str, at))
            raise UserError(f"{name} at position {where} is not a positive number; estimate it")


def _by_row(values: np.ndarray) -> np.ndarray:
    return np.repeat(values[:, None], values.size, axis=1)


def _only_first(values: np.ndarray) -> np.ndarray:
    """A table with weight on sessions that clicked i and not j."""
    table = np.zeros((4, *values.shape))
    table[FIRST] = values
    return table
