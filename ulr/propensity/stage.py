"""Groups to propensities: tally new dates, estimate on the driver, publish three tables."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.config.inputs import Features
from ulr.config.settings import Propensities
from ulr.engine.interface import Engine
from ulr.errors import InvalidData, UserError
from ulr.experiments.serving import Plan
from ulr.features.source import open_features
from ulr.groups.levels import window_levels
from ulr.groups.window import groups_files, groups_fingerprints
from ulr.kernels.within_rankings import RankingSums
from ulr.propensity import tasks
from ulr.propensity.choice import SWAPS
from ulr.propensity.counts import WindowCounts
from ulr.propensity.curve_checks import drift_findings
from ulr.propensity.daily.stage import WindowTallies, build_tallies
from ulr.propensity.estimate import NO_FEATURES, estimate_from_counts
from ulr.propensity.estimators import NEED_HARVEST
from ulr.propensity.exposures import Exposures
from ulr.propensity.extension import EXTENDED
from ulr.propensity.findings import Finding
from ulr.propensity.inputs import OpenFeatures, files_read, given_theta
from ulr.propensity.levels import (
    LevelCurve,
    events_in,
    level_curve,
    level_findings,
    level_table,
)
from ulr.propensity.origins import changed_origins, origin_counts, origins
from ulr.propensity.planned import read_plan
from ulr.propensity.rankings import RankingTally
from ulr.propensity.segments import SegmentResult
from ulr.propensity.swap_counts import counts_of
from ulr.propensity.tables import curve_table, findings_table, joint_table
from ulr.propensity.tasks import GroupFiles
from ulr.warehouse.stage import publish_if_changed
from ulr.warehouse.tables import Outcome, Warehouse
from ulr.warehouse.transaction import WriteTransaction


@dataclass(frozen=True)
class PropensityOutcome(Outcome):
    """The outcome with the estimates, all traffic first; empty if the stage was skipped.

    change: which positions have another source than in the estimates that were replaced. levels:
    the curve of each level of feedback, lowest first; empty if there is only one.
    """

    results: list[SegmentResult] = field(default_factory=list)
    change: str = ""
    levels: list[LevelCurve] = field(default_factory=list)


def build_propensities(
    engine: Engine,
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
    opened = _latest_features(engine, warehouse, settings, features, dates)
    plan, text = read_plan(plan_file) if plan_file else (None, "")
    planned = {"plan": {"path": plan_file, "content": text}} if plan_file else {}
    side_tables = [("joint_propensities", ""), ("diagnostics", "")]
    if len(window_levels(warehouse, dates)) > 1:
        side_tables.append(("level_propensities", ""))

    def write(
        theta: WriteTransaction,
        joint: WriteTransaction,
        checks: WriteTransaction,
        *by_level: WriteTransaction,
    ) -> tuple[list[SegmentResult], str, list[LevelCurve]]:
        before = _published_origins(warehouse)
        results, levels = estimate_window(engine, warehouse, dates, settings, plan, features=opened)
        for table in by_level:
            table.write_table(level_table(levels))
            table.publish({"levels": len(levels)})
        curves, pairs = curve_table(results), joint_table(results)
        findings = findings_table(results)
        joint.write_table(pairs)
        checks.write_table(findings)
        theta.write_table(curves)
        joint.publish({"rows": pairs.num_rows})
        checks.publish({"rows": findings.num_rows})
        counts = {"rows": curves.num_rows, "findings": findings.num_rows}
        theta.publish(counts | origin_counts(origins(curves)))
        return results, changed_origins(before, origins(curves)), levels

    outcome, estimates = publish_if_changed(
        warehouse,
        "propensities",
        inputs=groups_fingerprints(warehouse, dates) | files_read(settings, opened) | planned,
        settings=settings.model_dump(),
        side_tables=side_tables,
        write=write,
        force=force,
    )
    return PropensityOutcome(
        outcome.manifest, outcome.skipped, outcome.damage, *(estimates or ([], "", []))
    )


def _published_origins(warehouse: Warehouse) -> dict[int, str]:
    published = warehouse.current("propensities")
    if published is None or warehouse.damage(published):
        return {}
    return origins(warehouse.read("propensities"))


def estimate_window(
    engine: Engine,
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    settings: Propensities,
    plan: Plan | None = None,
    *,
    features: OpenFeatures | None = None,
) -> tuple[list[SegmentResult], list[LevelCurve]]:
    """Return the estimates of all traffic and the segments, and the curve of each level.

    There are curves of levels only if the window has several.
    """
    results = estimate_propensities(engine, warehouse, dates, settings, plan, features=features)
    levels: list[LevelCurve] = []
    if len(window_levels(warehouse, dates)) > 1:
        levels = estimate_levels(engine, warehouse, dates, settings, results[0])
        results[0].findings.extend(level_findings(levels, settings.significance))
    return results, levels


def estimate_propensities(
    engine: Engine,
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    settings: Propensities,
    plan: Plan | None = None,
    *,
    features: OpenFeatures | None = None,
) -> list[SegmentResult]:
    """Return the estimates of all traffic, then of the segments. features: for regression_em."""
    theta = given_theta(settings) if settings.estimator == "given" else []
    if not groups_files(warehouse, dates):
        raise InvalidData(
            "the groups of these dates contain no page; give other dates, or see the table "
            "`quarantine`"
        )
    window = _Window(engine, warehouse, dates, features)
    return estimate_from_counts(window, settings, theta=theta, plan=plan)


def estimate_levels(
    engine: Engine,
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    settings: Propensities,
    lowest: SegmentResult,
) -> list[LevelCurve]:
    """Return the curve of every level of feedback over all traffic, the lowest first.

    lowest: the estimates of the lowest level. An estimator that uses neither swaps nor natural rank
    changes gives no curve of a higher level: every position is `insufficient`.
    """
    names = window_levels(warehouse, dates)
    estimator = lowest.own.estimator
    estimator = SWAPS if estimator == EXTENDED else estimator  # a level has no harvested positions
    own = settings.model_copy(update={"estimator": estimator})
    window, levels = _Window(engine, warehouse, dates), []
    for at, name in enumerate(names):
        events = names[at:]
        swaps = window.arms(events)
        curve = lowest.own
        if at:
            counts = WindowCounts(swaps)
            if own.estimator in NEED_HARVEST:
                counts = replace(counts, harvest=window.harvest(own, events))
            curve = level_curve(counts.evidence(lowest.own.positions, None), own)
        levels.append(LevelCurve(name, events_in(swaps), curve))
    return levels


def drift(
    engine: Engine,
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
            engine,
            warehouse,
            dates,
            theta_only,
            features=_latest_features(engine, warehouse, settings, features, dates),
        )[0].curve
        for dates in windows
    )
    return drift_findings(before, after, settings.significance)


def plain_rates(
    engine: Engine,
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    *,
    positions: int,
) -> tuple[np.ndarray, int]:
    """Return co-click rates of unswapped pages, click rates on the diagonal; and all pages."""
    rows = build_tallies(engine, warehouse, dates).swap_counts(positions)
    arm = counts_of(rows, positions).unswapped()
    pages = pc.sum(rows.filter(pc.equal(rows["l"], 0))["sessions"]).as_py() or 0
    return arm.co_clicks / max(arm.sessions, 1), pages


def _latest_features(
    engine: Engine,
    warehouse: Warehouse,
    settings: Propensities,
    features: Features | None,
    dates: Sequence[dt.date],
) -> OpenFeatures | None:
    """Return a function that opens the latest features up to the last date; None: none are used."""
    if features is None or not settings.regression_em.features:
        return None
    latest = features
    if features.source == "table":  # the log has features of documents on the days they were shown
        latest = features.model_copy(update={"as_of": "latest"})
    return cache(lambda: open_features(engine, warehouse, latest, dates))


@dataclass(frozen=True)
class _Window:
    """The groups to make a pass over, if an estimator needs all pages."""

    engine: Engine
    warehouse: Warehouse
    dates: Sequence[dt.date]
    features: OpenFeatures | None = None

    @cached_property
    def _tallies(self) -> WindowTallies:
        return build_tallies(self.engine, self.warehouse, self.dates)

    def swap_counts(self, max_position: int) -> pa.Table:
        """Return `swap_counts_schema`; dates without tallies are counted."""
        return self._tallies.swap_counts(max_position)

    def longest(self) -> int:
        """Return the number of documents of the longest page."""
        groups = [self.warehouse.require("groups", f"dt={date}") for date in self.dates]
        return max(manifest.counts.get("longest", 0) for manifest in groups)

    def moments(self, blocks: int) -> pa.Table:
        """Return `moments_schema`."""
        return self._tallies.moments(self.engine, blocks=blocks)

    def rankings(self, tally: RankingTally) -> RankingSums:
        """Return the sums within displayed rankings."""
        return tasks.count_rankings(self.engine, self._groups, tally)

    def check_features(self, settings: Propensities) -> None:
        """Raise UserError unless there are features for regression-EM."""
        if self.features is None:
            raise UserError(NO_FEATURES)
        self.features()

    def harvest(self, settings: Propensities, events: Sequence[str] = ()) -> pa.Table:
        """Return `harvest_schema` of all documents. events: that are clicks; (): any."""
        return tasks.harvest_table(
            self.engine,
            self._groups,
            max_position=settings.max_position,
            blocks=settings.harvest.blocks,
            weight=settings.harvest.weight,
            events=events,
        )

    def exposures(self, settings: Propensities) -> Exposures:
        """Return the exposures for regression-EM."""
        return tasks.em_exposures(
            self.engine,
            self._groups,
            max_position=settings.max_position,
            queries=settings.regression_em.queries,
            blocks=settings.harvest.blocks,
            features=self.features and self.features(),
        )

    def arms(self, events: Sequence[str]) -> pa.Table:
        """Return `swap_counts_schema` of some events."""
        return tasks.count_arms(self.engine, self._groups, events=events)

    @cached_property
    def _groups(self) -> GroupFiles:
        files = [
            (day, path)
            for day, date in enumerate(self.dates)
            for path in groups_files(self.warehouse, [date])
        ]
        return GroupFiles(self.warehouse.storage.url, files)
