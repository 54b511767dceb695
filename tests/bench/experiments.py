"""A swap experiment on the queries of a simulated log, and the propensities estimated from it."""

from __future__ import annotations

import numpy as np

from tests.support.worlds import Log
from ulr.config.load import load_settings
from ulr.experiments.buckets import Bucket, parse_bucket, permutation
from ulr.propensity.estimators import Evidence
from ulr.propensity.examination import Examination, examination_of
from ulr.propensity.segments import estimate_segments
from ulr.propensity.swap_counts import ALL_CLICKED, Arm, BucketArms, SwapCounts
from ulr.propensity.tables import curve_table, joint_table
from ulr.simulate.randomness import stream


def estimated_propensities(log: Log, pages: int, seed: int, *overlays: str) -> Examination:
    """Return theta and psi estimated from `pages` further pages, split over the buckets 1:k.

    overlays: settings that differ from the defaults, as KEY=VALUE.
    """
    positions = log.documents.shape[1]
    buckets = [parse_bucket(f"1:{k}") for k in range(2, positions + 1)]
    rng = stream(seed, "swap pages", 0)
    arms = {b.name: _arms(log, b, pages // len(buckets), rng) for b in buckets}
    evidence = Evidence(SwapCounts(positions, arms))
    settings = load_settings(None, ["propensities.estimator=combined", *overlays]).propensities
    results = estimate_segments(evidence, {}, settings)
    return examination_of(curve_table(results), joint_table(results))[0]


def _arms(log: Log, bucket: Bucket, pages: int, rng: np.random.Generator) -> BucketArms:
    order = permutation(bucket, log.documents.shape[1])
    rows = rng.integers(0, log.relevance.shape[0], (2, pages // 2))
    kept, swapped = log.relevance[rows[0]], log.relevance[rows[1]][:, order]
    return BucketArms(
        bucket, *(_arm(log.click_model.draw(rng, r), bucket) for r in (kept, swapped))
    )


def _arm(clicks: np.ndarray, bucket: Bucket) -> Arm:
    """Count the co-clicks of an arm, in total and given clicks at the swapped positions."""
    bits = clicks.astype(np.int64)
    conditions = {p: clicks[:, p - 1] for p in bucket.positions}
    conditions[ALL_CLICKED] = np.logical_and.reduce(list(conditions.values()))
    conditional = {name: bits[held].T @ bits[held] for name, held in conditions.items()}
    return Arm(len(clicks), bits.T @ bits, conditional)
