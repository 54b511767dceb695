"""Propensities from the counts of a window, wherever these were counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ulr.config.settings import Propensities
from ulr.errors import UserError
from ulr.experiments.serving import Plan
from ulr.kernels.within_rankings import RankingSums
from ulr.propensity.choice import (
    AUTO,
    HARVEST,
    SWAPS,
    Choice,
    SwapEvidence,
    choose_features,
    choose_harvest,
    choose_swaps,
    not_identified,
)
from ulr.propensity.click_model import find_click_model, needs_rankings
from ulr.propensity.counts import WindowCounts
from ulr.propensity.estimators import NEED_HARVEST, NEED_SWAPS, swap_curve
from ulr.propensity.exposures import Exposures
from ulr.propensity.harvesting import harvested_curve
from ulr.propensity.inputs import check_buckets, segment_names
from ulr.propensity.rankings import RankingTally, swap_buckets
from ulr.propensity.segments import SegmentResult, estimate_segments, with_choice, with_clicks
from ulr.propensity.swap_counts import counts_of

NO_FEATURES = "with features of the documents"


class CountSource(Protocol):
    """What can be counted in the groups of a window."""

    def swap_counts(self, max_position: int) -> pa.Table:
        """Return `swap_counts_schema` without deeper clicks."""

    def longest(self) -> int:
        """Return the number of documents of the longest page."""

    def moments(self, blocks: int) -> pa.Table:
        """Return `moments_schema`."""

    def harvest(self, settings: Propensities) -> pa.Table:
        """Return `harvest_schema`."""

    def check_features(self, settings: Propensities) -> None:
        """Raise UserError unless there are features for regression-EM."""

    def exposures(self, settings: Propensities) -> Exposures:
        """Return the exposures of documents for regression-EM."""

    def rankings(self, tally: RankingTally) -> RankingSums:
        """Return the sums within displayed rankings."""


def estimate_from_counts(
    source: CountSource,
    settings: Propensities,
    *,
    theta: Sequence[float] = (),
    plan: Plan | None = None,
) -> list[SegmentResult]:
    """Return the estimates of all traffic, then of the segments.

    theta: the curve of the estimator `given`. plan: of the swap experiment, if it is known.
    """
    swaps = source.swap_counts(settings.max_position)
    positions = len(theta) or _deepest(source, swaps, settings.max_position)
    check_buckets(swaps, positions, settings.estimator)
    counts, choice = WindowCounts(swaps), None
    if settings.estimator == AUTO:
        counts, choice = _choose(source, counts, positions, settings)
        settings = settings.model_copy(update={"estimator": choice.estimator})
    elif settings.estimator in (*NEED_HARVEST, "regression_em"):
        counts = _count_documents(source, counts, settings)
    if _needs_trust(settings):
        counts = replace(counts, moments=source.moments(settings.harvest.blocks))
    segments = segment_names(swaps, settings)
    # Bonferroni over the curves, so that more segments raise no more false alarms.
    significance = settings.significance / (1 + len(segments))
    settings = settings.model_copy(update={"significance": significance})
    reached = choice.reached if choice else []
    evidence = {
        name: counts.of(name).evidence(positions, plan, reached=reached) for name in segments
    }
    traffic = counts.evidence(positions, plan, theta, reached)
    results = with_choice(estimate_segments(traffic, evidence, settings), choice)
    pooled = results[0]
    if not needs_rankings(pooled.fits, pooled.findings, settings):
        return results
    names = swap_buckets(pc.unique(swaps["bucket"]).to_pylist(), positions)
    sums = source.rankings(RankingTally(positions, settings.harvest.blocks, names))
    clicks = find_click_model(sums, names, pooled.fits, pooled.findings, settings)
    return [with_clicks(result, clicks, significance) for result in results]


def _needs_trust(settings: Propensities) -> bool:
    estimator = settings.estimator
    return estimator == "affine" or (settings.test_trust and estimator in NEED_SWAPS)


def _count_documents(
    source: CountSource, counts: WindowCounts, settings: Propensities
) -> WindowCounts:
    """Return the counts with those of all documents: a pass over the groups of the source."""
    if settings.estimator in NEED_HARVEST:
        return replace(counts, harvest=source.harvest(settings))
    return replace(counts, exposures=source.exposures(settings))


def _choose(
    source: CountSource, counts: WindowCounts, positions: int, settings: Propensities
) -> tuple[WindowCounts, Choice]:
    """Return the choice of `auto` with the counts it needs; a pass only where swaps lack clicks."""
    swaps, min_clicks = counts_of(counts.swaps, positions), settings.min_clicks
    curve = swap_curve(swaps, SWAPS, min_clicks=min_clicks)
    evidence = SwapEvidence(curve, swaps, min_clicks)
    if evidence.suffices:
        return counts, choose_swaps(evidence)
    table = source.harvest(settings)
    harvest = harvested_curve(table, positions, form=HARVEST, min_clicks=min_clicks)
    choice = choose_harvest(evidence, table, harvest, settings)
    if choice is not None:
        return replace(counts, harvest=table), choice
    try:
        source.check_features(settings)
        exposures = source.exposures(settings)
    except UserError as error:
        raise not_identified(evidence, harvest, f"{error}") from None
    return replace(counts, exposures=exposures), choose_features(evidence, harvest)


def _deepest(source: CountSource, clicks: pa.Table, limit: int) -> int:
    """Return the deepest position shown, or clicked if the groups do not say; at least 2."""
    return max(min(source.longest(), limit), pc.max(clicks["l"]).as_py() or 0, 2)
