"""`ulr.propensities`: theta and psi with intervals from a frame of pages, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from ulr.config.load import default_settings
from ulr.config.settings import Propensities, Settings
from ulr.errors import UserError
from ulr.experiments.serving import Plan
from ulr.ml.documents import features_table
from ulr.ml.frames import like
from ulr.ml.pages import groups_by_date
from ulr.propensity.estimate import estimate_from_counts
from ulr.propensity.examination import BySegment, Examination, examination_of
from ulr.propensity.in_memory import MemoryCounts
from ulr.propensity.planned import read_plan
from ulr.propensity.segments import SegmentResult
from ulr.propensity.tables import (
    curve_table,
    findings_table,
    joint_table,
    summary_lines,
    without_covariances,
)


@dataclass(frozen=True, repr=False)
class PropensityEstimates:
    """theta, psi and the diagnostics as frames, of the kind of the pages.

    theta: by segment and position, with standard_error, lower, upper, support, source, note. psi:
    by segment and pair of positions. A null segment is all traffic. The tables of the service have
    the same rows.
    """

    theta: Any
    psi: Any
    diagnostics: Any
    theta_table: pa.Table
    psi_table: pa.Table
    lines: list[str]

    def examination(self) -> tuple[Examination, BySegment]:
        """Return the examination of all traffic with its errors, and that of each segment."""
        return examination_of(self.theta_table, self.psi_table)

    def __repr__(self) -> str:
        return "\n".join(self.lines)


def propensities(
    pages: Any, *, features: Any = None, plan: str | Plan | None = None, **settings: Any
) -> PropensityEstimates:
    """Estimate theta and psi from a frame of pages or impressions: pandas, polars or Arrow.

    settings: those of the section propensities (docs/settings.md), such as estimator="all_pairs",
    theta=[...] for estimator="given". features: a frame of documents for estimator="regression_em".
    plan: of the swap experiment, or its file, to check the sizes of its arms.
    """
    theta = settings.pop("theta", None)
    defaults = default_settings()
    own = _merged(defaults.propensities, settings)
    if theta is not None:
        own = own.model_copy(update={"estimator": "given"})
    days = groups_by_date(pages, _reading(defaults, own))
    documents = None if features is None else features_table(features, "features")
    if isinstance(plan, str):
        plan, _ = read_plan(plan)
    counts = MemoryCounts(days, documents)
    results = estimate_from_counts(counts, own, theta=_given(theta, own), plan=plan)
    return _estimates(results, pages)


def _reading(defaults: Settings, own: Propensities) -> Settings:
    """Return the settings to read pages with: at least as deep as the estimates."""
    depth = max(defaults.groups.max_position, own.max_position)
    groups = defaults.groups.model_copy(update={"max_position": depth})
    return defaults.model_copy(update={"groups": groups})


def _given(theta: Any, settings: Propensities) -> list[float]:
    if settings.estimator != "given":
        return []
    if theta is None:
        raise UserError("estimator='given' needs theta, a list of numbers: theta=[1.0, 0.6, ...]")
    return [float(value) for value in theta]


def _merged(defaults: Propensities, changes: dict[str, Any]) -> Propensities:
    values = defaults.model_dump()
    for name, value in changes.items():
        known = values.get(name)
        values[name] = {**known, **value} if isinstance(known, dict) else value
    try:
        return Propensities.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        name = ".".join(map(str, problem["loc"]))
        raise UserError(f"{name} = {problem['input']!r}: {problem['msg'].lower()}") from None


def _estimates(results: list[SegmentResult], pages: Any) -> PropensityEstimates:
    theta, psi = curve_table(results), joint_table(results)
    return PropensityEstimates(
        theta=like(pages, without_covariances(theta)),
        psi=like(pages, without_covariances(psi)),
        diagnostics=like(pages, findings_table(results)),
        theta_table=theta,
        psi_table=psi,
        lines=summary_lines(results),
    )
