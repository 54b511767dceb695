"""Pair weights of every method as tables over two positions (docs/methods.md section 4).

In a session a pair (i, j) is one of four types: both clicked, i only, j only, none (Kurennoy's
s(c), eq. 6). A method is the weight of "i should be above j" for each type and each pair of
positions, an array of shape (4, K, K). The weight of a pair in a group is the sum over types of
that table times the number of sessions. For `joint` it is the second row of A (Kurennoy eq. 9).
For `cascade` a click counts as 1 / p, which depends on the clicks above it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ulr.errors import UserError
from ulr.kernels.layout import Stopping
from ulr.propensity.examination import Examination

BOTH, FIRST, SECOND, NONE = range(4)
TINY_STAY = 1e-3  # of a user who always stops; no click follows a click then


def naive_weight(examination: Examination, prs_clip: float) -> np.ndarray:
    """c_i (1 - c_j)."""
    return _only_first(np.ones_like(examination.psi))


def robust_weight(examination: Examination, prs_clip: float) -> np.ndarray:
    """a_i c_i (1 - c_j), Kurennoy eq. 26."""
    return _only_first(_by_row(1 / examination.theta))


def robust_plus_weight(examination: Examination, prs_clip: float) -> np.ndarray:
    """a_i c_i (1 - c_j) + max(a_i - a_j, 0) c_i c_j, so that u_ij - u_ji = a_i c_i - a_j c_j."""
    inverse = 1 / examination.theta
    table = _only_first(_by_row(inverse))
    table[BOTH] = np.maximum(inverse[:, None] - inverse, 0)
    return table


def ips_all_weight(examination: Examination, prs_clip: float) -> np.ndarray:
    """a_i c_i for every j, PRS eq. 5."""
    table = _only_first(_by_row(1 / examination.theta))
    table[BOTH] = table[FIRST]
    return table


def pns_weight(examination: Examination, prs_clip: float) -> np.ndarray:
    """theta_j c_i (1 - c_j), PRS section 4.1."""
    return _only_first(_by_row(examination.theta).T)


def prs_weight(examination: Examination, prs_clip: float) -> np.ndarray:
    """min(prs_clip, theta_j / theta_i) c_i (1 - c_j), PRS eq. 9 and 11."""
    return _only_first(np.minimum(prs_clip, examination.theta / examination.theta[:, None]))


def joint_weight(examination: Examination, prs_clip: float) -> np.ndarray:
    """a_i c_i (1 - c_j) + (a_i - a_ij) c_i c_j, Kurennoy eq. 9-10."""
    table = _only_first(_by_row(1 / examination.theta))
    table[BOTH] = table[FIRST] - 1 / examination.psi
    return table


def affine_weight(examination: Examination, prs_clip: float) -> np.ndarray:
    """rhat_i minus the estimate of r_i r_j, docs/methods.md section 4.7.

    rhat = (c - beta) / alpha, Oosterhuis eq. 6. c_i c_j / kappa_ij has the expectation of the
    product of two independent clicks, whatever the browsing model.
    """
    alpha, beta, kappa = examination.alpha, examination.beta, examination.kappa
    if alpha is None or beta is None:
        raise UserError(
            "method affine needs alpha and beta, which these propensities do not have; set "
            "propensities.estimator=affine and run `ulr propensities` again"
        )
    if kappa is None:
        kappa = examination.psi / np.outer(examination.theta, examination.theta)
    table = np.empty((4, *kappa.shape))
    for kind, (c_i, c_j) in {BOTH: (1, 1), FIRST: (1, 0), SECOND: (0, 1), NONE: (0, 0)}.items():
        product = c_i * c_j / kappa - c_i * beta - (c_j - beta) * beta[:, None]
        table[kind] = ((c_i - beta) / alpha)[:, None] - product / np.outer(alpha, alpha)
    return table


def cascade_weight(examination: Examination, prs_clip: float) -> np.ndarray:
    """c_i / p_i - c_i c_j / p_lower, docs/methods.md section 4.8.

    The counts are divided by p already; of sessions that clicked both they hold the difference
    1 / p_lower - 1 / p_i.
    """
    if examination.stop_probability is None or examination.continue_probability is None:
        raise UserError(
            "method cascade needs stop_probability and continue_probability, which these "
            "propensities do not have; `ulr propensities` estimates them from swap buckets if "
            "users stop after clicks (diagnostic stops_after_click)"
        )
    table = _only_first(np.ones_like(examination.psi))
    table[BOTH] = -1.0
    return table


METHODS: dict[str, Callable[[Examination, float], np.ndarray]] = {
    "naive": naive_weight,
    "robust": robust_weight,
    "robust+": robust_plus_weight,
    "ips-all": ips_all_weight,
    "pns": pns_weight,
    "prs": prs_weight,
    "joint": joint_weight,
    "affine": affine_weight,
    "cascade": cascade_weight,
    "unbiased-lambdamart": naive_weight,  # counts; t+ and t- are learned
    "dla": naive_weight,  # for validation; training uses the clicks of lists
}
AUTO = "auto"  # chosen among the weightings of pairs/weightings.py by validation loss
LABELS = "labels"  # the upper bound: gains of golden labels, no clicks
DIVIDES_BY = {"joint": ("psi",), "affine": ("alpha", "kappa")}  # besides theta
BY_CLICK_PATTERN = ("cascade",)  # weights depend on all clicks of a session, not on four types
HAS_PRECISION = ("pns",)  # its factor theta_j makes the weights of a pair comparable
NEEDS_NO_THETA = ("naive", "unbiased-lambdamart", "dla", LABELS)  # their lists are not cut
NEEDS_ALL_PAIRS = ("affine",)  # pairs without a click have weight too
LEARNS_POSITIONS = ("unbiased-lambdamart", "dla")  # needs the position of every listed document
METHOD_NAMES = (AUTO, *METHODS, LABELS)


def weight_table(
    method: str,
    examination: Examination,
    *,
    prs_clip: float = np.inf,
    propensity_floor: float = 0.0,
    weight_cap: float = np.inf,
) -> np.ndarray:
    """Return the method's table after clipping: float64, (4, K, K).

    prs_clip: upper bound on the ratio of `prs`. propensity_floor: lower bound on theta, psi and
    alpha. weight_cap: upper bound on the absolute weight of one session.
    """
    if method not in METHODS:
        raise UserError(f"method = {method!r}: expected one of {', '.join(METHOD_NAMES)}")
    used = floored(examination, propensity_floor)
    _check(used, ("theta", *DIVIDES_BY.get(method, ())))
    table = METHODS[method](used, prs_clip)
    if method in BY_CLICK_PATTERN:  # their counts are clipped instead
        return table
    return table.clip(-weight_cap, weight_cap)


def stopping_of(
    examinations: Sequence[Examination],
    *,
    propensity_floor: float = 0.0,
    weight_cap: float = np.inf,
) -> Stopping:
    """Return p of every segment for the methods BY_CLICK_PATTERN; 1 where it is unknown."""
    depth = examinations[0].depth
    reach, stay = np.ones((len(examinations), depth)), np.ones(len(examinations))
    for n, own in enumerate(examinations):
        if own.stop_probability is not None and own.continue_probability is not None:
            reach[n] = own.continue_probability ** np.arange(depth)
            stay[n] = max(1 - own.stop_probability, TINY_STAY)
    return Stopping(reach, stay, min(weight_cap, 1 / max(propensity_floor, np.finfo(float).tiny)))


def precision_table(method: str, theta: np.ndarray) -> np.ndarray:
    """Return the precision of pairs of positions by which a method's weights are multiplied: K x K.

    The harmonic mean of the two thetas, which is 2 / (a_i + a_j): the variance of
    c_i / theta_i - c_j / theta_j is about r_i a_i + r_j a_j. `pns` is `robust` times
    theta_i theta_j already, so its factor is 1.
    """
    if method in HAS_PRECISION:
        return np.ones((theta.size, theta.size))
    inverse = 1 / theta
    return 2 / (inverse[:, None] + inverse)


def pattern_theta(examination: Examination) -> np.ndarray:
    """Return q, with E[(c_k / p_k)^2] = r_k / q_k: what theta is to weights 1 / theta.

    1 / q_k = beta^-(k-1) prod over m < k of (1 + A_m phi / (1 - phi)). The mean attraction A_m
    follows from theta(m + 1) = theta(m) beta (1 - phi A_m).
    """
    phi, beta = examination.stop_probability, examination.continue_probability
    if not phi or not beta:
        return examination.theta
    stay = max(1 - phi, TINY_STAY)
    ratio = examination.theta[1:] / examination.theta[:-1]
    attraction = ((1 - ratio / beta) / phi).clip(0, 1)
    fall = beta / (1 + attraction * phi / stay)
    q: np.ndarray = np.cumprod(np.append(1.0, fall))
    return q


def floored(examination: Examination, floor: float) -> Examination:
    """Return the examination with lower bounds on theta, psi and alpha."""
    alpha = examination.alpha
    return replace(
        examination,
        theta=np.maximum(examination.theta, floor),
        psi=np.maximum(examination.psi, floor),
        alpha=None if alpha is None else np.maximum(alpha, floor),
    )


def _check(examination: Examination, divisors: Sequence[str]) -> None:
    k = examination.depth
    if examination.psi.shape != (k, k):
        raise UserError(f"psi has shape {examination.psi.shape}; theta has {k} positions")
    for name in divisors:
        values = getattr(examination, name)
        if values is None:
            continue
        bad = np.argwhere(~(np.isfinite(values) & (values > 0))) + 1
        if bad.size:
            where = ", ".join(map(str, bad[0]))
            raise UserError(f"{name} at position {where} is not a positive number; estimate it")


def _by_row(values: np.ndarray) -> np.ndarray:
    return np.repeat(values[:, None], values.size, axis=1)


def _only_first(values: np.ndarray) -> np.ndarray:
    """A table with weight on sessions that clicked i and not j."""
    table = np.zeros((4, *values.shape))
    table[FIRST] = values
    return table
