"""Groups to propensities: tally new dates, estimate on the driver, publish three tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from ulr.config.settings import Features, Propensities
from ulr.engine.failures import reraise_user_errors
from ulr.errors import InvalidData, UserError
from ulr.experiments.buckets import is_shuffle, parse_bucket
from ulr.experiments.serving import Plan
from ulr.features.source import FeatureSource, open_features
from ulr.groups.window import groups_files, groups_fingerprints
from ulr.propensity import tasks
from ulr.propensity.affine import regressions
from ulr.propensity.click_model import find_click_model, needs_rankings
from ulr.propensity.curve_checks import drift_findings
from ulr.propensity.daily.stage import build_tallies
from ulr.propensity.estimators import (
    NEED_HARVEST,
    NEED_SWAPS,
    USE_SHUFFLES,
    Evidence,
    theta_of_json,
)
from ulr.propensity.exposures import Exposures
from ulr.propensity.findings import Finding
from ulr.propensity.planned import read_plan
from ulr.propensity.rankings import RankingTally, swap_buckets
from ulr.propensity.schema import harvest_schema, moments_schema
from ulr.propensity.segments import SegmentResult, estimate_segments, with_clicks
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
    features: Features | None = None,
    plan_file: str | None = None,
    force: bool = False,
) -> PropensityOutcome:
    """Estimate from the dates' groups; publish psi, the diagnostics, and theta last.

    features: for regression_em. plan_file: the plan of the swap experiment, for the check
    `sample_ratio`.
    """
    source = _features_read(start_spark, settings, features, dates)
    plan, text = read_plan(plan_file) if plan_file else (None, "")
    planned = {"plan": {"path": plan_file, "content": text}} if plan_file else {}

    def write(
        theta: WriteTransaction, joint: WriteTransaction, checks: WriteTransaction
    ) -> list[SegmentResult]:
        results = estimate_propensities(
            start_spark, warehouse, dates, settings, plan, features=source
        )
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
        inputs=groups_fingerprints(warehouse, dates) | _files_read(settings, source) | planned,
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
    *,
    features: FeatureSource | None = None,
) -> list[SegmentResult]:
    """Return the estimates of all traffic, then of the segments. features: for regression_em."""
    theta = _given_theta(settings) if settings.estimator == "given" else []
    if not groups_files(warehouse, dates):
        raise InvalidData(
            "the groups of these dates contain no page; give other dates, or see the table "
            "`quarantine`"
        )
    tallies = build_tallies(start_spark, warehouse, dates)
    swaps = tallies.swap_counts(settings.max_position)
    positions = len(theta) or _deepest_position(warehouse, dates, swaps, settings.max_position)
    _check_buckets(swaps, positions, settings.estimator)
    counts = _Counts(swaps)
    if _needs_trust(settings):
        moments = tallies.moments(start_spark, blocks=settings.harvest.blocks)
        counts = _Counts(swaps, moments=moments)
    elif settings.estimator in (*NEED_HARVEST, "regression_em"):
        counts = _count_documents(
            start_spark(), warehouse, dates, settings, swaps=swaps, features=features
        )
    segments = _segments(swaps, settings)
    # Bonferroni over the curves, so that more segments raise no more false alarms.
    significance = settings.significance / (1 + len(segments))
    settings = settings.model_copy(update={"significance": significance})
    evidence = {name: counts.of(name).evidence(positions, plan) for name in segments}
    results = estimate_segments(counts.evidence(positions, plan, theta), evidence, settings)
    pooled = results[0]
    if not needs_rankings(pooled.fits, pooled.findings, settings):
        return results
    names = swap_buckets(pc.unique(swaps["bucket"]).to_pylist(), positions)
    sums = tasks.count_rankings(
        start_spark, warehouse.storage.url, groups_files(warehouse, dates),
        RankingTally(positions, settings.harvest.blocks, names),
    )  # fmt: skip
    clicks = find_click_model(sums, names, pooled.fits, pooled.findings, settings)
    return [with_clicks(result, clicks, significance) for result in results]


@reraise_user_errors()
def drift(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    windows: Sequence[Sequence[dt.date]],
    settings: Propensities,
    features: Features | None = None,
) -> list[Finding]:
    """Test whether theta of all traffic changed between two windows of dates.

    features: for regression_em.
    """
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
        estimate_propensities(
            start_spark,
            warehouse,
            dates,
            theta_only,
            features=_features_read(start_spark, settings, features, dates),
        )[0].curve
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


@dataclass(frozen=True)
class _Counts:
    """The tables of counts; those that the settings do not need are empty."""

    swaps: pa.Table
    harvest: pa.Table = field(default_factory=harvest_schema.empty_table)
    moments: pa.Table = field(default_factory=moments_schema.empty_table)
    exposures: Exposures | None = None

    def of(self, segment: str) -> _Counts:
        tables = (self.swaps, self.harvest, self.moments)
        return _Counts(*(t.filter(pc.equal(t["segment"], segment)) for t in tables))

    def evidence(self, positions: int, plan: Plan | None, theta: Sequence[float] = ()) -> Evidence:
        trust = regressions(self.moments)
        swaps = counts_of(self.swaps, positions)
        return Evidence(swaps, self.harvest, trust, self.exposures, list(theta), plan)


def _needs_trust(settings: Propensities) -> bool:
    estimator = settings.estimator
    return estimator == "affine" or (settings.test_trust and estimator in NEED_SWAPS)


def _count_documents(
    spark: SparkSession,
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    settings: Propensities,
    *,
    swaps: pa.Table,
    features: FeatureSource | None,
) -> _Counts:
    """Return the counts with those of all documents: a pass over the groups of the window."""
    files = [
        (day, path)
        for day, date in enumerate(dates)
        for path in groups_files(warehouse, [date])
    ]  # fmt: skip
    shown = tasks.count_exposures(
        spark, warehouse.storage.url, files, max_position=settings.max_position
    )
    em, harvest = settings.regression_em, settings.harvest
    if settings.estimator in NEED_HARVEST:
        table = tasks.harvest_table(shown, blocks=harvest.blocks, weight=harvest.weight)
        return _Counts(swaps, harvest=table)
    exposures = tasks.em_exposures(
        spark, shown, queries=em.queries, blocks=harvest.blocks, features=features
    )
    return _Counts(swaps, exposures=exposures)


def _check_buckets(swaps: pa.Table, positions: int, estimator: str) -> None:
    """Raise UserError if the estimator needs buckets, and none of them lies within positions."""
    names = pc.unique(swaps["bucket"]).drop_null().to_pylist()
    shuffles = [name for name in names if is_shuffle(name)]
    if estimator == "shuffle" and not shuffles:
        raise UserError(
            "propensities.estimator=shuffle needs pages in the bucket shuffle, and these groups "
            "have none; use combined with swap buckets, or all_pairs (natural rank changes)"
        )
    usable = any(
        estimator in USE_SHUFFLES
        if is_shuffle(name)
        else parse_bucket(name).last_position <= positions
        for name in names
    )
    if estimator in NEED_SWAPS and not usable:
        raise UserError(
            f"propensities.estimator={estimator} needs swap buckets, and these groups have none; "
            "use all_pairs (natural rank changes) or regression_em, or run an experiment "
            "(`ulr plan-swaps`)"
        )


def _files_read(settings: Propensities, features: FeatureSource | None) -> dict[str, Any]:
    """Return what the estimator reads besides groups, for the fingerprint."""
    if settings.estimator == "given" and settings.given.file:
        return {"given": _given_theta(settings)}
    return {} if features is None else {"features": features.identity}


def _features_read(
    start_spark: Callable[[], SparkSession],
    settings: Propensities,
    features: Features | None,
    dates: Sequence[dt.date],
) -> FeatureSource | None:
    """Return the latest features up to the last date, if the estimator reads them."""
    if features is None or settings.estimator != "regression_em":
        return None
    if not settings.regression_em.features:
        return None
    return open_features(start_spark, features.model_copy(update={"as_of": "latest"}), dates)


def _given_theta(settings: Propensities) -> list[float]:
    file = settings.given.file
    if not file:
        return settings.given.theta
    folder, _, name = file.rpartition("/")
    content = Storage(folder or ".").read_json(name)
    if content is None:
        raise UserError(f"propensities.given.file: {file} does not exist")
    return theta_of_json(content, file)


def _segments(rows: pa.Table, settings: Propensities) -> list[str]:
    """Return the segments that get a separate curve, sorted."""
    if not settings.segments or settings.estimator in ("given", "regression_em"):
        return []
    return sorted(pc.unique(rows["segment"]).drop_null().to_pylist())


def _deepest_position(
    warehouse: Warehouse, dates: Sequence[dt.date], clicks: pa.Table, limit: int
) -> int:
    """Return the deepest position shown, or clicked if the groups do not say; at least 2."""
    groups = [warehouse.require("groups", f"dt={date}") for date in dates]
    shown = max(manifest.counts.get("longest", 0) for manifest in groups)
    return max(min(shown, limit), pc.max(clicks["l"]).as_py() or 0, 2)
