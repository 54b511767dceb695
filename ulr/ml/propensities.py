"""`ulr.propensities`: theta and psi with intervals from a frame of pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from ulr.config.load import default_settings
from ulr.config.settings import Given, Propensities, Settings
from ulr.errors import UserError
from ulr.experiments.serving import Plan
from ulr.features.files import find_features
from ulr.ml.documents import features_table
from ulr.ml.frames import like
from ulr.ml.pages import read_pages
from ulr.ml.workspace import workspace
from ulr.propensity.examination import BySegment, Examination, examination_of
from ulr.propensity.levels import LevelCurve, level_table
from ulr.propensity.planned import read_plan
from ulr.propensity.segments import SegmentResult
from ulr.propensity.stage import estimate_window
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
    by segment and pair of positions. A null segment is all traffic. levels: theta of each level of
    feedback, None if there is one level. The tables of the service have the same rows.
    """

    theta: Any
    psi: Any
    diagnostics: Any
    levels: Any
    theta_table: pa.Table
    psi_table: pa.Table
    lines: list[str]

    def examination(self) -> tuple[Examination, BySegment]:
        """Return the examination of all traffic with its errors, and that of each segment."""
        return examination_of(self.theta_table, self.psi_table)

    def __repr__(self) -> str:
        return "\n".join(self.lines)


def propensities(
    pages: Any,
    *,
    features: Any = None,
    plan: str | Plan | None = None,
    feedback: Mapping[str, float] | None = None,
    **settings: Any,
) -> PropensityEstimates:
    """Estimate theta and psi from a frame of pages or impressions: pandas, polars or Arrow.

    settings: those of the section propensities (docs/settings.md), such as estimator="all_pairs",
    theta=[...] for estimator="given". features: a frame of documents for estimator="regression_em".
    plan: of the swap experiment, or its file, to check the sizes of its arms. feedback: gains of
    the events in the column feedback, as the setting log.feedback.
    """
    theta = settings.pop("theta", None)
    defaults = default_settings()
    own = _merged(defaults.propensities, settings)
    if theta is not None:
        own = own.model_copy(update={"estimator": "given"})
    if own.estimator == "given":
        own = own.model_copy(update={"given": Given(theta=_given(theta), file=None)})
    if isinstance(plan, str):
        plan, _ = read_plan(plan)
    with workspace() as work:
        dates = read_pages(work, pages, _reading(defaults, own), feedback=feedback)
        opened = None
        if features is not None and own.regression_em.features:
            table = features_table(features, "features")
            path = work.write(table, "features", "part-00000.parquet")
            opened = partial(find_features, path)
        results, levels = estimate_window(
            work.engine, work.warehouse, dates, own, plan, features=opened
        )
    return _estimates(results, levels, pages)


def _reading(defaults: Settings, own: Propensities) -> Settings:
    """Return the settings to read pages with: at least as deep as the estimates."""
    depth = max(defaults.groups.max_position, own.max_position)
    groups = defaults.groups.model_copy(update={"max_position": depth})
    return defaults.model_copy(update={"groups": groups})


def _given(theta: Any) -> list[float]:
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


def _estimates(
    results: list[SegmentResult], levels: list[LevelCurve], pages: Any
) -> PropensityEstimates:
    theta, psi = curve_table(results), joint_table(results)
    return PropensityEstimates(
        theta=like(pages, without_covariances(theta)),
        psi=like(pages, without_covariances(psi)),
        diagnostics=like(pages, findings_table(results)),
        levels=like(pages, level_table(levels)) if levels else None,
        theta_table=theta,
        psi_table=psi,
        lines=summary_lines(results),
    )
