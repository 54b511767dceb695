"""Groups to propensities: tally new dates, estimate on the driver, publish three tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from ulr.config.settings import Propensities
from ulr.engine.failures import reraise_user_errors
from ulr.errors import InvalidData, UserError
from ulr.experiments.serving import Plan
from ulr.features.files import find_features
from ulr.groups.window import groups_files, groups_fingerprints
from ulr.kernels.within_rankings import RankingSums
from ulr.propensity import tasks
from ulr.propensity.curve_checks import drift_findings
from ulr.propensity.daily.stage import build_tallies
from ulr.propensity.estimate import estimate_from_counts
from ulr.propensity.estimators import (
    theta_of_json,
)
from ulr.propensity.exposures import Exposures
from ulr.propensity.findings import Finding
from ulr.propensity.planned import read_plan
from ulr.propensity.rankings import RankingTally
from ulr.propensity.segments import SegmentResult
from ulr.propensity.swap_counts import counts_of
from ulr.propensity.tables import curve_table, findings_table, joint_table
from ulr.warehouse.stage import publish_if_changed
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Outcome, Warehouse
from ulr.warehouse.transaction import WriteTransaction


@dataclass(frozen=True)
class PropensityOutcome(Outcome):
    """The outcome with the estimates, all traffic first; empty if the stage was skipped."""

    results: list[SegmentResult] = field(default_factory=list)


def build_propensities(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    settings: Propensities,
    *,
    plan_file: str | None = None,
    force: bool = False,
) -> PropensityOutcome:
    """Estimate from the dates' groups; publish psi, the diagnostics, and theta last.

    plan_file: the plan of the swap experiment, for the check `sample_ratio`.
    """
    plan, text = read_plan(plan_file) if plan_file else (None, "")
    planned = {"plan": {"path": plan_file, "content": text}} if plan_file else {}

    def write(
        theta: WriteTransaction, joint: WriteTransaction, checks: WriteTransaction
    ) -> list[SegmentResult]:
        results = estimate_propensities(start_spark, warehouse, dates, settings, plan)
        curves, pairs = curve_table(results), joint_table(results)
        findings = findings_table(results)
        joint.write_table(pairs)
        checks.write_table(findings)
        theta.write_table(curves)
        joint.publish({"rows": pairs.num_rows})
        checks.publish({"rows": findings.num_rows})
        theta.publish({"rows": curves.num_rows, "findings": findings.num_rows})
        return results

    outcome, results = publish_if_changed(
        warehouse,
        "propensities",
        inputs=groups_fingerprints(warehouse, dates) | _files_read(settings) | planned,
        settings=settings.model_dump(),
        side_tables=[("joint_propensities", ""), ("diagnostics", "")],
        write=write,
        force=force,
    )
    return PropensityOutcome(outcome.manifest, outcome.skipped, outcome.damage, results or [])


def estimate_propensities(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    settings: Propensities,
    plan: Plan | None = None,
) -> list[SegmentResult]:
    """Return the estimates of all traffic, then of the segments."""
    theta = _given_theta(settings) if settings.estimator == "given" else []
    if not groups_files(warehouse, dates):
        raise InvalidData(
            "the groups of these dates contain no page; give other dates, or see the table "
            "`quarantine`"
        )
    counts = _WarehouseCounts(start_spark, warehouse, dates)
    return estimate_from_counts(counts, settings, theta=theta, plan=plan)


class _WarehouseCounts:
    """The counts of published groups: dates that have none are tallied first."""

    def __init__(
        self,
        start_spark: Callable[[], SparkSession],
        warehouse: Warehouse,
        dates: Sequence[dt.date],
    ) -> None:
        self._start_spark, self._warehouse, self._dates = start_spark, warehouse, dates
        self._tallies = build_tallies(start_spark, warehouse, dates)

    def swap_counts(self, max_position: int) -> pa.Table:
        return self._tallies.swap_counts(max_position)

    def longest(self) -> int:
        groups = [self._warehouse.require("groups", f"dt={date}") for date in self._dates]
        return max(manifest.counts.get("longest", 0) for manifest in groups)

    def moments(self, blocks: int) -> pa.Table:
        return self._tallies.moments(self._start_spark, blocks=blocks)

    def harvest(self, settings: Propensities) -> pa.Table:
        blocks, weight = settings.harvest.blocks, settings.harvest.weight
        return tasks.harvest_table(self._shown(settings), blocks=blocks, weight=weight)

    def exposures(self, settings: Propensities) -> Exposures:
        em = settings.regression_em
        return tasks.em_exposures(
            self._start_spark(), self._shown(settings), queries=em.queries,
            blocks=settings.harvest.blocks, features=em.features,
        )  # fmt: skip

    def rankings(self, tally: RankingTally) -> RankingSums:
        files = groups_files(self._warehouse, self._dates)
        return tasks.count_rankings(self._start_spark, self._warehouse.storage.url, files, tally)

    def _shown(self, settings: Propensities) -> DataFrame:
        """Return the exposures of all documents: a pass over the groups of the window."""
        files = [
            (day, path)
            for day, date in enumerate(self._dates)
            for path in groups_files(self._warehouse, [date])
        ]  # fmt: skip
        url, limit = self._warehouse.storage.url, settings.max_position
        return tasks.count_exposures(self._start_spark(), url, files, max_position=limit)


@reraise_user_errors()
def drift(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    windows: Sequence[Sequence[dt.date]],
    settings: Propensities,
) -> list[Finding]:
    """Test whether theta of all traffic changed between two windows of dates."""
    theta_only = settings.model_copy(
        update={
            "segments": False,
            "depth": "estimated",
            "joint": "none",
            "browsing_model": "independent",
            "test_trust": False,
        }
    )
    before, after = (
        estimate_propensities(start_spark, warehouse, dates, theta_only)[0].curve
        for dates in windows
    )
    return drift_findings(before, after, settings.significance)


@reraise_user_errors()
def plain_rates(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    *,
    positions: int,
) -> tuple[np.ndarray, int]:
    """Return co-click rates of unswapped pages, click rates on the diagonal; and all pages."""
    rows = build_tallies(start_spark, warehouse, dates).swap_counts(positions)
    arm = counts_of(rows, positions).unswapped()
    pages = pc.sum(rows.filter(pc.equal(rows["l"], 0))["sessions"]).as_py() or 0
    return arm.co_clicks / max(arm.sessions, 1), pages


def _files_read(settings: Propensities) -> dict[str, Any]:
    """Return the files that the estimator reads besides groups, for the fingerprint."""
    if settings.estimator == "given" and settings.given.file:
        return {"given": _given_theta(settings)}
    if settings.estimator == "regression_em" and settings.regression_em.features:
        return {"features": find_features(settings.regression_em.features).identity}
    return {}


def _given_theta(settings: Propensities) -> list[float]:
    file = settings.given.file
    if not file:
        return settings.given.theta
    folder, _, name = file.rpartition("/")
    content = Storage(folder or ".").read_json(name)
    if content is None:
        raise UserError(f"propensities.given.file: {file} does not exist")
    return theta_of_json(content, file)
