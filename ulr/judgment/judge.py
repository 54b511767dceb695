"""Judgments of documents: rows in, rows out (docs/methods.md section 7.7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.special import expit, logit

from ulr.judgment.counts import DOCUMENT, Clicked, Curves, join_curves, sum_documents
from ulr.judgment.prior import Prior
from ulr.kernels.layout import Ragged
from ulr.kernels.relevance_posteriors import RelevancePosteriors, relevance_posteriors

TAIL = 0.025  # of a 95% interval, on each side
_Z = 1.959964  # of a normal distribution for the same interval
_FINENESS = 0.5
_DOCUMENTS = 4096  # whose gradients are in memory at a time, documents x parameters
_TINY = 1e-300

judgments_schema = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in DOCUMENT),
        pa.field("rating", pa.float64()),
        pa.field("lower", pa.float64()),
        pa.field("upper", pa.float64()),
        pa.field("clicks", pa.int64()),
        pa.field("impressions", pa.int64()),
        pa.field("examined", pa.float64()),
    ]
)


@dataclass(frozen=True)
class JudgePlan:
    """What judgments are made with. min_impressions: of a document that gets one."""

    curves: Curves
    prior: Prior
    min_impressions: int = 1


class Ratings(NamedTuple):
    """The posterior mean of relevance and its 95% interval, float64 per document."""

    rating: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def judge(documents: pa.Table | pa.RecordBatch, plan: JudgePlan) -> pa.Table:
    """Return `judgments_schema`. documents: rows of `shown_schema`; their order is kept.

    examined: the expected number of examined impressions, sum n_k theta_k.
    """
    clicked = join_curves(documents, plan.curves)
    shown = clicked.shown
    impressions = sum_documents(shown, shown.sessions)
    ratings = rate(clicked, plan)
    values = [
        *ratings,
        sum_documents(shown, shown.clicks).astype(np.int64),
        impressions.astype(np.int64),
        sum_documents(shown, shown.sessions * shown.alpha),
    ]
    names = [documents[name] for name in DOCUMENT]
    columns = [*names, *(pa.array(column) for column in values)]
    table = pa.table(columns, schema=judgments_schema)
    return table.filter(pa.array(impressions >= plan.min_impressions))


def rate(clicked: Clicked, plan: JudgePlan) -> Ratings:
    """Return the ratings of documents."""
    posteriors = relevance_posteriors(clicked.shown, *plan.prior.of(clicked.shown), TAIL, _FINENESS)
    middle = logit(np.clip(posteriors.mean, _TINY, 1 - 1e-16))
    error = _Z * np.sqrt(_propensity_variance(clicked, posteriors, plan.curves))
    below = np.hypot(np.maximum(middle - posteriors.lower, 0), error)
    above = np.hypot(np.maximum(posteriors.upper - middle, 0), error)
    return Ratings(posteriors.mean, expit(middle - below), expit(middle + above))


def _propensity_variance(
    clicked: Clicked, posteriors: RelevancePosteriors, curves: Curves
) -> np.ndarray:
    """Return the variance of logit r by the errors of the propensities, float64 per document."""
    lists = Ragged(clicked.shown.offsets)
    variance = np.zeros(lists.offsets.size - 1)
    if curves.covariance is None:
        return variance
    size = curves.covariance.shape[0]
    for start in range(0, variance.size, _DOCUMENTS):
        end = min(start + _DOCUMENTS, variance.size)
        entries = slice(lists.offsets[start], lists.offsets[end])
        row = np.repeat(np.arange(end - start), lists.lengths[start:end])
        at = row * size + clicked.parameter[entries]
        gradient = np.bincount(at, posteriors.by_log_alpha[entries], (end - start) * size)
        if curves.parameters > curves.depth:
            gradient += np.bincount(at + curves.depth, posteriors.by_beta[entries], gradient.size)
        gradient = gradient.reshape(-1, size)
        variance[start:end] = ((gradient @ curves.covariance) * gradient).sum(axis=1)
    return np.maximum(variance, 0.0)
