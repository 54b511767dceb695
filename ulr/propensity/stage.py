"""Groups to propensities: count on Spark, estimate on the driver, publish the tables at once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from ulr.config.settings import Propensities
from ulr.engine.failures import reraise_user_errors
from ulr.errors import UserError
from ulr.features.files import find_features
from ulr.groups.window import groups_files, groups_fingerprints
from ulr.propensity import diagnostics
from ulr.propensity.affine import regressions
from ulr.propensity.browsing import fit_browsing
from ulr.propensity.curve import Curve, monotone
from ulr.propensity.diagnostics import drift_findings
from ulr.propensity.estimators import ESTIMATORS, HARVESTS, SWAPS, Evidence, theta_of_json
from ulr.propensity.joint import joint_estimates, measure_pairs
from ulr.propensity.regression_em import Exposures
from ulr.propensity.swap_counts import Arm, counts_of
from ulr.propensity.tables import SegmentResult, curve_table, findings_table, joint_table
from ulr.propensity.tasks import em_exposures, exposures, harvest_table, moment_table, swap_counts
from ulr.warehouse.stage import publish_if_changed
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Outcome, Warehouse, WriteTransaction


@dataclass(frozen=True)
class PropensityOutcome(Outcome):
    """With what was estimated, where nothing was skipped."""

    results: list[SegmentResult] = field(default_factory=list)


def build_propensities(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    how: Propensities,
    *,
    force: bool = False,
) -> PropensityOutcome:
    """Estimate from the dates' groups; publish psi, the diagnostics, and theta last."""
    files = groups_files(warehouse, dates)

    def write(
        theta: WriteTransaction, joint: WriteTransaction, checks: WriteTransaction
    ) -> list[SegmentResult]:
        results = estimate_propensities(start_spark(), warehouse.storage.url, files, how)
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
        inputs=groups_fingerprints(warehouse, dates) | _files_read(how),
        settings=how.model_dump(),
        side_tables=[("joint_propensities", ""), ("diagnostics", "")],
        write=write,
        force=force,
    )
    return PropensityOutcome(outcome.manifest, outcome.skipped, results or [])


def estimate_propensities(
    spark: SparkSession, url: str, files: Sequence[str], how: Propensities
) -> list[SegmentResult]:
    """All traffic first, then the segments. files: groups files on the filesystem of `url`."""
    rows = swap_counts(spark, url, files, max_position=how.max_position)
    theta = _given(how) if how.estimator == "given" else None
    positions = len(theta) if theta else _deepest(rows)
    pool = counts_of(rows, positions)
    if how.estimator in SWAPS and not pool.buckets:
        raise UserError(
            f"propensities.estimator={how.estimator} needs swap buckets, and these groups have "
            "none; use all_pairs (natural rank changes) or regression_em, or run an experiment "
            "(`ulr plan-swaps`)"
        )
    parts = _documents(spark, url, files, how)
    everything = Evidence(pool, parts.harvest, _trust(parts.moments), parts.shown, theta)
    segments = _segments(rows, how)
    how = _shared_significance(how, 1 + len(segments))
    results = [estimate_segment(None, everything, how)]
    pooled = results[0].curve
    for segment in segments:
        own, harvest, moments = (
            _of(table, segment) for table in (rows, parts.harvest, parts.moments)
        )
        evidence = Evidence(counts_of(own, positions), harvest, _trust(moments))
        results.append(estimate_segment(segment, evidence, how, pooled))
    return results


@reraise_user_errors()
def drift(
    spark: SparkSession, url: str, windows: Sequence[Sequence[str]], how: Propensities
) -> list:
    """Findings on how theta of all traffic changed between two windows of groups files."""
    only = {
        "segments": False,
        "joint": "none",
        "browsing_model": "independent",
        "test_trust": False,
    }
    of_theta = how.model_copy(update=only)
    before, after = (
        estimate_propensities(spark, url, files, of_theta)[0].curve for files in windows
    )
    return drift_findings(before, after, how.significance)


@reraise_user_errors()
def plain_rates(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    *,
    positions: int,
) -> tuple[np.ndarray, int]:
    """Co-click rates (click rates on the diagonal) of unswapped pages, and the number of pages."""
    files = groups_files(warehouse, dates)
    rows = swap_counts(start_spark(), warehouse.storage.url, files, max_position=positions)
    counts = counts_of(rows, positions)
    arms = [b.kept for b in counts.buckets.values()]
    arms += [counts.outside] if counts.outside is not None else []
    plain = sum(arms, Arm.empty(positions))
    pages = pc.sum(rows.filter(pc.equal(rows["l"], 0))["sessions"]).as_py() or 0
    return plain.together / max(plain.sessions, 1), pages


@dataclass(frozen=True)
class _Documents:
    harvest: pa.Table | None = None
    moments: pa.Table | None = None
    shown: Exposures | None = None


def _documents(
    spark: SparkSession, url: str, files: Sequence[str], how: Propensities
) -> _Documents:
    """The tables that look at documents, made only where they are asked for."""
    wants_trust = how.estimator == "affine" or (how.test_trust and how.estimator in SWAPS)
    if not wants_trust and how.estimator not in (*HARVESTS, "regression_em"):
        return _Documents()
    shown = exposures(spark, url, files, max_position=how.max_position)
    blocks = how.harvest.blocks
    if wants_trust:
        return _Documents(moments=moment_table(shown, blocks=blocks))
    if how.estimator in HARVESTS:
        return _Documents(harvest=harvest_table(shown, blocks=blocks, weight=how.harvest.weight))
    return _Documents(shown=em_exposures(spark, shown, how))


def _files_read(how: Propensities) -> dict[str, Any]:
    """What the files that the settings name hold, as far as the estimator reads them."""
    if how.estimator == "given" and how.given.file:
        return {"given": _given(how)}
    if how.estimator == "regression_em" and how.regression_em.features:
        return {"features": find_features(how.regression_em.features).identity}
    return {}


def _given(how: Propensities) -> list[float]:
    if not how.given.file:
        return how.given.theta
    folder, _, name = how.given.file.rpartition("/")
    content = Storage(folder or ".").read_json(name)
    if content is None:
        raise UserError(f"propensities.given.file: {how.given.file} is not there")
    return theta_of_json(content, how.given.file)


def _segments(rows: pa.Table, how: Propensities) -> list[str]:
    """The segments that get a curve of their own, in order."""
    if not how.segments or how.estimator in ("given", "regression_em"):
        return []
    return sorted(pc.unique(rows["segment"]).drop_null().to_pylist())


def _shared_significance(how: Propensities, parts: int) -> Propensities:
    """The alarm is over all tests of a kind: with a share of it for each part of the traffic, more
    segments are no more false alarms."""
    return how.model_copy(update={"significance": how.significance / parts})


def _deepest(rows: pa.Table) -> int:
    """The deepest position that was ever clicked, at least 2."""
    return max(pc.max(rows["l"]).as_py() or 0, 2)


def _of(table: pa.Table | None, segment: str) -> pa.Table | None:
    return None if table is None else table.filter(pc.equal(table["segment"], segment))


def _trust(moments: pa.Table | None) -> list | None:
    return None if moments is None else regressions(moments)


def estimate_segment(
    segment: str | None, evidence: Evidence, how: Propensities, pooled: Curve | None = None
) -> SegmentResult:
    """theta, psi and diagnostics of one segment; thin positions take theirs from `pooled`."""
    measured = curve = ESTIMATORS[how.estimator](evidence, how)
    if pooled is not None:
        curve = fall_back(curve, pooled)
    if how.monotone:  # last: a value of all traffic's may rise above the segment's own
        curve = monotone(curve)
    swaps = evidence.swaps if evidence.swaps.buckets else None
    fit, fared = fit_browsing(how.browsing_model, curve.theta, swaps, width=how.row_width)
    solution = None
    if swaps is not None and how.joint != "none":
        solution = measure_pairs(swaps, min_coclicks=how.min_coclicks, joint=how.joint)
    pairs = joint_estimates(curve, solution, fit)
    findings = diagnostics.component_findings(measured)
    findings += diagnostics.agreement_findings(measured, how.significance)
    if swaps is not None:
        findings += diagnostics.sample_ratio_findings(swaps, how.significance)
        findings += diagnostics.untouched_findings(swaps, how.significance)
        findings += diagnostics.joint_findings(curve, pairs)
        findings += diagnostics.browsing_findings(fit, fared)
    findings += diagnostics.trust_findings(evidence.trust or [], how.significance)
    return SegmentResult(segment, curve, pairs, fit, fared, findings)


def fall_back(curve: Curve, pooled: Curve) -> Curve:
    """Take all traffic's value where the segment's own was refused, and say so."""
    thin = [
        i
        for i in range(curve.positions)
        if np.isnan(curve.theta[i]) and not np.isnan(pooled.theta[i])
    ]
    values = {name: _taken(curve, pooled, name, thin) for name in ("theta", "alpha", "beta")}
    covariance = curve.covariance.copy()
    source, note = list(curve.source), list(curve.note)
    covariance[thin, :] = covariance[:, thin] = 0.0
    covariance[np.ix_(thin, thin)] = pooled.covariance[np.ix_(thin, thin)]
    for i in thin:
        source[i], note[i] = "pooled", f"all traffic's value; this segment: {note[i]}"
    return replace(curve, **values, covariance=covariance, source=source, note=note)


def _taken(curve: Curve, pooled: Curve, name: str, thin: list[int]) -> np.ndarray | None:
    """One of the curve's arrays with all traffic's values at the thin positions."""
    own, others = getattr(curve, name), getattr(pooled, name)
    if own is None or others is None:
        return own
    taken = own.copy()
    taken[thin] = others[thin]
    return taken
