"""theta by `propensities.estimator: auto` where swaps are few (docs/methods.md section 3.13).

    python -m tests.bench.auto [--replications 40] [--seed 1] [--pages 0 1000 4000 20000]

theta is 1 / k at 10 positions. --pages pages of swaps 1:k, and 40,000 pages of 200 queries with six
rankings each. Per source of a position: how many positions have it, the root mean square error of
log theta, and the percentage of 95% intervals that contain the truth; then the same percentage of
the intervals of a model's click metrics, whose errors contain that of theta.
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np

from tests.bench.coverage import Hits, metric_hits, read_back, truth_of
from tests.support.coverage_worlds import THETA, K, Queries, World, harvest_of
from ulr.config.load import load_settings
from ulr.propensity.choice import SwapEvidence, choose_harvest, choose_swaps
from ulr.propensity.curve import ThetaCurve
from ulr.propensity.estimators import Evidence, swap_curve
from ulr.propensity.harvesting import harvested_curve
from ulr.propensity.segments import SegmentResult, estimate_segments
from ulr.propensity.swap_counts import SwapCounts

SETTINGS = load_settings(None).propensities.model_copy(update={"browsing_model": "independent"})
WORLD = World(200, zipf=False)
SESSIONS = 200  # per query, for rank changes
METRICS = ("ips_dcg", "snips_dcg")


def estimate(swaps: SwapCounts, rng: np.random.Generator) -> dict[str, SegmentResult]:
    """Return the estimates of `auto`, and of swaps alone with the others imputed, if any."""
    harvest = harvest_of(WORLD.exposures(rng, SESSIONS * WORLD.queries))
    clicks = SETTINGS.min_clicks
    few = SwapEvidence(swap_curve(swaps, "combined", min_clicks=clicks), swaps, clicks)
    curve = harvested_curve(harvest, K, form="all_pairs", min_clicks=clicks)
    choice = choose_swaps(few) if few.suffices else choose_harvest(few, harvest, curve, SETTINGS)
    if choice is None:
        raise ValueError("the rank changes of the simulation identify no theta")
    settings = SETTINGS.model_copy(update={"estimator": choice.estimator})
    evidence = Evidence(swaps, harvest=harvest, reached=choice.reached)
    results = {"auto": estimate_segments(evidence, {}, settings)[0]}
    if len(few.reached) > 1:
        combined = SETTINGS.model_copy(update={"estimator": "combined"})
        results["combined"] = estimate_segments(Evidence(swaps), {}, combined)[0]
    return results


def theta_hits(name: str, curve: ThetaCurve, rows: dict[str, list[np.ndarray]]) -> None:
    """Add the error of log theta and the coverage of each position below the first."""
    lower, upper = curve.interval()
    error = np.log(curve.theta) - np.log(THETA)
    inside = (lower <= THETA) & (upper >= THETA)
    for k in range(1, K):
        rows[f"{name}, {curve.source[k]}"].append(np.array([error[k], inside[k]]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pages", type=int, nargs="+", default=[0, 1000, 4000, 20_000])
    options = parser.parse_args()
    truth = truth_of(Queries.draw(np.random.default_rng(0), 400_000))
    print("| swap pages | theta of | positions | RMSE of log theta | coverage |")
    print("|---|---|---|---|---|")
    for pages in options.pages:
        rows: dict[str, list[np.ndarray]] = defaultdict(list)
        metrics: dict[str, list[bool]] = defaultdict(list)
        for n in range(options.replications):
            rng = np.random.default_rng([options.seed, pages, n])
            swaps = WORLD.lab.draw(rng, pages) if pages else SwapCounts(K)
            results = estimate(swaps, rng)
            for name, result in results.items():
                theta_hits(name, result.curve, rows)
            hits: Hits = metric_hits(WORLD, rng, read_back(results["auto"]), truth, "auto")
            for label, inside in hits:
                metrics[label].extend(inside.tolist())
        for name, values in sorted(rows.items()):
            error, inside = np.array(values).T
            share = len(values) / options.replications
            rmse = np.sqrt(np.mean(error**2))
            print(f"| {pages:,} | {name} | {share:.1f} | {rmse:.3f} | {inside.mean():.1%} |")
        for label, inside in metrics.items():
            if label.endswith(METRICS) and "left out" not in label:
                print(f"| {pages:,} | {label} | | | {np.mean(inside):.1%} |")


if __name__ == "__main__":
    main()
