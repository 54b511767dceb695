"""The error of the propensities in the sums of a metric, by the delta method (section 7.4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ulr.propensity.examination_errors import ExaminationErrors


@dataclass(frozen=True)
class PropensityScatter:
    """The function from the gradients of two sums to their covariance.

    A gradient has the derivatives by log theta (or by log alpha and beta) of every curve, and for
    metrics with psi those by log psi(k, l) of every curve after them. affine: whether the first are
    by alpha and beta.
    """

    errors: ExaminationErrors
    affine: bool

    def __call__(self, gradient: np.ndarray) -> np.ndarray:
        """Return G C G'; gradient: (2, parameters)."""
        errors = self.errors
        curves, depth = errors.psi_slope.shape[0], errors.psi_slope.shape[2]
        width = 2 * depth if self.affine else depth
        first = gradient[:, : curves * width].reshape(2, curves, width).copy()
        by_psi = gradient[:, curves * width :].reshape(2, curves, -1)
        scatter = np.zeros((2, 2))
        if by_psi.size:
            first[:, :, :depth] += np.einsum("acp,cpk->ack", by_psi, errors.psi_slope)
            scatter += np.einsum("acp,cpq,bcq->ab", by_psi, errors.psi_covariance, by_psi,
                                 optimize=True)  # fmt: skip
        covariance = errors.covariance[:, :width, :, :width]
        scatter += np.einsum("acm,cmdn,bdn->ab", first, covariance, first, optimize=True)
        return scatter


def propensity_scatter(
    errors: ExaminationErrors | None, *, affine: bool
) -> PropensityScatter | None:
    """Return the scatter of these errors; None if there are none."""
    return None if errors is None else PropensityScatter(errors, affine)
