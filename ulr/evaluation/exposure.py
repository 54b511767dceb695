"""Estimates of relevance from clicks, with their derivatives by the propensities.

A unit is a shown document, or with `policy` weights a document in all displayed lists of its query
that have one examination curve. With the clicks c and sessions n of a unit at each position k,

    rate = sum (c - n beta_k) / sum n alpha_k       (alpha = theta and beta = 0 without trust bias)

is its relevance per session, and rhat = rate times the sessions of a list is the number of relevant
sessions in that list. For one position this is clicks / theta_k. With `policy` weights a document
must be as relevant in one list of its query as in any other (docs/methods.md section 7.2).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ulr.evaluation.shown import ShownDocuments
from ulr.kernels.merge import group_keys
from ulr.propensity.examination import Examination


@dataclass(frozen=True)
class Relevance:
    """rhat of every shown document, float64, and what its derivatives need.

    unit       int64 per shown document. rate: float64 per unit
    sessions   float64 per shown document, of its list
    exposure   float64 per shown document: n alpha_k over the sum of its unit
    inverse    float64 per shown document: n over the same sum
    parameter  int64 per shown document, the index of log alpha_k
    beta       how far the index of beta_k is behind; 0 without trust bias
    parameters their number: those of one curve after those of another
    """

    rhat: np.ndarray
    unit: np.ndarray
    rate: np.ndarray
    sessions: np.ndarray
    exposure: np.ndarray
    inverse: np.ndarray
    parameter: np.ndarray
    beta: int
    parameters: int

    def gradient(self, value: np.ndarray) -> np.ndarray:
        """Return the derivatives of sum rhat value, float64; value: per shown document."""
        per_unit = np.bincount(self.unit, self.sessions * value, self.rate.size)
        by_alpha = (per_unit * self.rate)[self.unit] * self.exposure
        result = -np.bincount(self.parameter, by_alpha, self.parameters)
        if self.beta:
            by_beta = per_unit[self.unit] * self.inverse
            result -= np.bincount(self.parameter + self.beta, by_beta, self.parameters)
        return result


def estimate_relevance(
    shown: ShownDocuments,
    pooled: Examination,
    by_segment: Mapping[str, Examination],
    *,
    affine: bool,
    policy: bool,
    gain: float = 1.0,
) -> Relevance:
    """Return the relevance of the shown documents; no list is deeper than the curves.

    gain: of the highest level of feedback, all of which have the trust bias of clicks.
    """
    curves = [own.click_rates(affine) for own in (pooled, *by_segment.values())]
    alpha, beta = (np.stack(part) for part in zip(*curves, strict=True))
    beta = gain * beta
    curve = curve_of_groups(shown, by_segment)[shown.group]
    sessions = shown.sessions[shown.group].astype(float)
    n_alpha = sessions * alpha[curve, shown.position - 1]
    corrected = shown.clicks - sessions * beta[curve, shown.position - 1]
    unit = np.arange(curve.size)
    if policy:
        documents = shown.row_hash[shown.window.row_of]
        unit, _ = group_keys(documents, curve.astype(np.uint64))
    count = int(unit.max(initial=-1)) + 1
    exposed = np.bincount(unit, n_alpha, count)
    rate = np.bincount(unit, corrected, count) / exposed
    width = pooled.depth * (2 if affine else 1)
    return Relevance(
        rhat=rate[unit] * sessions,
        unit=unit,
        rate=rate,
        sessions=sessions,
        exposure=n_alpha / exposed[unit],
        inverse=sessions / exposed[unit],
        parameter=curve * width + shown.position - 1,
        beta=pooled.depth if affine else 0,
        parameters=len(curves) * width,
    )


def curve_of_groups(shown: ShownDocuments, by_segment: Mapping[str, Examination]) -> np.ndarray:
    """Return the number of the curve of each group (int64): 0 is that of all traffic."""
    return shown.window.tables_of({name: n for n, name in enumerate(by_segment, start=1)})
