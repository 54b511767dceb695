"""Propensities from the counts of a window, wherever these were counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ulr.config.settings import Propensities
from ulr.errors import UserError
from ulr.experiments.buckets import is_shuffle, parse_bucket
from ulr.experiments.serving import Plan
from ulr.kernels.within_rankings import RankingSums
from ulr.propensity.affine import regressions
from ulr.propensity.click_model import find_click_model, needs_rankings
from ulr.propensity.estimators import NEED_HARVEST, NEED_SWAPS, USE_SHUFFLES, Evidence
from ulr.propensity.exposures import Exposures
from ulr.propensity.rankings import RankingTally, swap_buckets
from ulr.propensity.schema import harvest_schema, moments_schema
from ulr.propensity.segments import SegmentResult, estimate_segments, with_clicks
from ulr.propensity.swap_counts import counts_of


class Counts(Protocol):
    """What can be counted in the groups of a window."""

    def swap_counts(self, max_position: int) -> pa.Table:
        """Return `swap_counts_schema` without deeper clicks."""

    def longest(self) -> int:
        """Return the number of documents of the longest page."""

    def moments(self, blocks: int) -> pa.Table:
        """Return `moments_schema`."""

    def harvest(self, settings: Propensities) -> pa.Table:
        """Return `harvest_schema`."""

    def exposures(self, settings: Propensities) -> Exposures:
        """Return the exposures of documents for regression-EM."""

    def rankings(self, tally: RankingTally) -> RankingSums:
        """Return the sums within displayed rankings."""


def estimate_from_counts(
    counts: Counts,
    settings: Propensities,
    *,
    theta: Sequence[float] = (),
    plan: Plan | None = None,
) -> list[SegmentResult]:
    """Return the estimates of all traffic, then of the segments.

    theta: the curve of the estimator `given`. plan: of the swap experiment, if it is known.
    """
    swaps = counts.swap_counts(settings.max_position)
    positions = len(theta) or _deepest(counts, swaps, settings.max_position)
    _check_buckets(swaps, positions, settings.estimator)
    tables = _Tables(swaps)
    if _needs_trust(settings):
        tables = _Tables(swaps, moments=counts.moments(settings.harvest.blocks))
    elif settings.estimator in NEED_HARVEST:
        tables = _Tables(swaps, harvest=counts.harvest(settings))
    elif settings.estimator == "regression_em":
        tables = _Tables(swaps, exposures=counts.exposures(settings))
    segments = _segments(swaps, settings)
    # Bonferroni over the curves, so that more segments raise no more false alarms.
    significance = settings.significance / (1 + len(segments))
    settings = settings.model_copy(update={"significance": significance})
    evidence = {name: tables.of(name).evidence(positions, plan) for name in segments}
    results = estimate_segments(tables.evidence(positions, plan, theta), evidence, settings)
    pooled = results[0]
    if not needs_rankings(pooled.fits, pooled.findings, settings):
        return results
    names = swap_buckets(pc.unique(swaps["bucket"]).to_pylist(), positions)
    sums = counts.rankings(RankingTally(positions, settings.harvest.blocks, names))
    clicks = find_click_model(sums, names, pooled.fits, pooled.findings, settings)
    return [with_clicks(result, clicks, significance) for result in results]


@dataclass(frozen=True)
class _Tables:
    """The tables of counts; those that the settings do not need are empty."""

    swaps: pa.Table
    harvest: pa.Table = field(default_factory=harvest_schema.empty_table)
    moments: pa.Table = field(default_factory=moments_schema.empty_table)
    exposures: Exposures | None = None

    def of(self, segment: str) -> _Tables:
        tables = (self.swaps, self.harvest, self.moments)
        return _Tables(*(t.filter(pc.equal(t["segment"], segment)) for t in tables))

    def evidence(self, positions: int, plan: Plan | None, theta: Sequence[float] = ()) -> Evidence:
        trust = regressions(self.moments)
        swaps = counts_of(self.swaps, positions)
        return Evidence(swaps, self.harvest, trust, self.exposures, list(theta), plan)


def _needs_trust(settings: Propensities) -> bool:
    estimator = settings.estimator
    return estimator == "affine" or (settings.test_trust and estimator in NEED_SWAPS)


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


def _segments(rows: pa.Table, settings: Propensities) -> list[str]:
    """Return the segments that get a separate curve, sorted."""
    if not settings.segments or settings.estimator in ("given", "regression_em"):
        return []
    return sorted(pc.unique(rows["segment"]).drop_null().to_pylist())


def _deepest(counts: Counts, clicks: pa.Table, limit: int) -> int:
    """Return the deepest position shown, or clicked if the groups do not say; at least 2."""
    return max(min(counts.longest(), limit), pc.max(clicks["l"]).as_py() or 0, 2)
