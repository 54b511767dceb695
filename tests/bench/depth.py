"""What imputed propensities are worth: errors of theta, and quality with few swap pages.

    python -m tests.bench.depth                                  errors of imputed theta
    python -m tests.bench.depth --letor FILE ... [--pages N ...] NDCG@10 of cut and complete lists

The first table imputes the positions below the deepest estimated one (docs/methods.md section
3.11). The second compares `propensities.depth` imputed and estimated on simulated clicks, with
propensities from N swap pages in the buckets 1:2 to 1:10; "naive" and "labels" are cut to the
positions with an estimate in the second case.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import fmean, stdev

import numpy as np
from rich.console import Console
from rich.table import Table

from tests.bench.experiments import estimated_propensities
from tests.bench.letor import VALIDATION, World, WorldOptions, make_world
from tests.support.in_memory import train_ranker
from tests.support.worlds import Log, browsing, features_table, groups_of_pages
from ulr.config.load import load_settings
from ulr.features.join import join_features
from ulr.features.split import sample_queries
from ulr.kernels.ranking_metrics import ranking_metrics
from ulr.pairs.config import make_pair_config
from ulr.pairs.table import build_pair_table
from ulr.pairs.weightings import AUTO, training_columns, validation_columns
from ulr.pairs.weights import LABELS
from ulr.propensity import depth as imputation
from ulr.propensity.curve import make_curve
from ulr.propensity.examination import Examination
from ulr.simulate.browsing import eye_tracking_curve, power_curve
from ulr.simulate.clicks import ClickModel
from ulr.simulate.traffic import Catalogue, rank_catalogue
from ulr.training.data import read_pairs, split_queries
from ulr.training.plan import TrainPlan

METHODS = (LABELS, "naive", "robust", "joint", AUTO)
DEPTHS = ("estimated", "imputed")
# Standard deviation of lambda and variance of the walk, as the product has them and others.
PRIORS = {
    "as published": (imputation.LAMBDA_SD, imputation.WALK_VARIANCE),
    "power only": (0.0, 1e-6),
    "power and exponential, no prior": (10.0, 1e-6),
    "power and walk": (0.0, 0.03),
    "half as wide": (0.1, 0.01),
    "twice as wide": (0.4, 0.1),
}
CELLS = ((2, 10), (3, 10), (4, 10), (6, 10), (10, 20))  # deepest estimated and deepest position
CURVES: dict[str, Callable[[int], np.ndarray]] = {
    "power 0.5": lambda n: power_curve(n, 0.5),
    "power 1": lambda n: power_curve(n, 1.0),
    "power 2": lambda n: power_curve(n, 2.0),
    "eye tracking": lambda n: eye_tracking_curve(n, 1.0) / eye_tracking_curve(1, 1.0),
    "exponential 0.9": lambda n: 0.9 ** np.arange(n),
    "exponential 0.8": lambda n: 0.8 ** np.arange(n),
    "exponential 0.7": lambda n: 0.7 ** np.arange(n),
}


def imputation_errors(
    theta: np.ndarray, estimated: int, error: float, samples: int
) -> tuple[float, float]:
    """Return the root mean square error of imputed log theta, and the coverage of its intervals.

    error: of log theta at position 2; variances are in proportion to 1 / theta.
    """
    rng, n = np.random.default_rng(1), theta.size
    variance = error**2 * theta[1] / theta
    variance[0] = 0.0
    reasons = dict.fromkeys(range(estimated + 1, n + 1), "too few")
    gaps, inside = [], []
    for _ in range(samples):
        noisy = theta * np.exp(rng.normal(0, np.sqrt(variance)))
        curve = make_curve("c", noisy, np.diag(variance), np.zeros(n, np.int64), reasons)
        imputed = imputation.impute_theta(curve)
        low, high = imputed.interval()
        gaps.append(np.log(imputed.theta / theta)[estimated:])
        inside.append(((low <= theta) & (theta <= high))[estimated:])
    return float(np.sqrt(np.mean(np.square(gaps)))), float(np.mean(inside))


def quality(world: World, known: Examination, method: str, depth: str, *, trees: int) -> float:
    """Return NDCG@10 on complete lists of other queries. known: to its depth, lists are cut."""
    settings = load_settings(None)
    groups = groups_of_pages(world.corpus, world.documents, world.query, world.clicks)
    window = join_features(groups, features_table(world.corpus, world.queries))
    config = make_pair_config(method, known)
    if depth == "estimated":
        config = replace(config, needs_theta=True)
    table, _ = build_pair_table(window, config)
    train, validation, stopping = read_pairs([table], training_columns(method)), None, 0
    if method == AUTO:
        held_out = sample_queries(table["query_id"].combine_chunks(), VALIDATION, "validation")
        validation = split_queries(read_pairs([table], [validation_columns(method)]), held_out)
        train, stopping = split_queries(train, ~held_out), settings.train.early_stopping_round
    lightgbm = {**settings.lightgbm, "num_threads": 1}
    if method == LABELS:  # its weights are gains, not counts of sessions
        lightgbm["min_sum_hessian_in_leaf"] = 0.05
    plan = TrainPlan(method, trees, lightgbm, early_stopping_round=stopping)
    ranker = train_ranker(train, plan, validation=validation)
    start = int(world.corpus.offsets[world.queries])
    offsets = world.corpus.offsets[world.queries :] - start
    scores = np.asarray(ranker.predict(world.corpus.features[start:]), np.float64)
    values = ranking_metrics(scores, world.corpus.labels[start:], offsets, cuts=(10,))
    return float(np.nanmean(values[:, 0]))


def propensities(
    world: World, options: WorldOptions, seed: int, pages: int
) -> dict[str, Examination]:
    """Return the propensities from a few swap pages of the world, for both settings of depth."""
    catalogue = Catalogue(world.corpus.names, world.corpus.labels, world.corpus.scores,
                          world.corpus.max_label)  # fmt: skip
    rankings = rank_catalogue(catalogue, options.positions, drift=0.0, noise=0.0, seed=seed, day=0)
    flat = np.ones(options.positions), np.zeros(options.positions)
    model = ClickModel(browsing(options.browsing, options.positions), *flat)
    documents, relevance = (x[: world.queries] for x in (rankings.documents, rankings.relevance))
    log = Log(documents, np.zeros(0), world.known, relevance, model)
    return {
        depth: estimated_propensities(log, pages, seed, f"propensities.depth={depth}")
        for depth in DEPTHS
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--letor", nargs="*", default=[], help="LETOR files")
    parser.add_argument("--pages", type=int, nargs="*", default=[3000])
    parser.add_argument("--models", nargs="*", default=["continuous", "independent"])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--error", type=float, default=0.1, help="of log theta(2)")
    args = parser.parse_args()
    if not args.letor:
        _print_errors(args.samples, args.error)
    for model in args.models if args.letor else ():
        for pages in args.pages:
            _print_quality(args, model, pages)


def _print_errors(samples: int, error: float) -> None:
    cells = [f"{known} of {deepest}" for known, deepest in CELLS]
    table = Table("curve", *cells, title="RMSE of imputed log theta (coverage of 95% intervals)")
    for name, curve in CURVES.items():
        results = [imputation_errors(curve(n), k, error, samples) for k, n in CELLS]
        table.add_row(name, *(f"{rmse:.2f} ({inside:.0%})" for rmse, inside in results))
    Console(width=110).print(table)
    table = Table("prior", *cells, title="Over all curves")
    for name, prior in PRIORS.items():
        imputation.LAMBDA_SD, imputation.WALK_VARIANCE = prior
        row = []
        for k, n in CELLS:
            found = [imputation_errors(curve(n), k, error, samples) for curve in CURVES.values()]
            rmse, inside = np.sqrt(fmean(r**2 for r, _ in found)), fmean(i for _, i in found)
            row.append(f"{rmse:.2f} ({inside:.0%})")
        table.add_row(name, *row)
    Console(width=110).print(table)


def _print_quality(args: argparse.Namespace, model: str, pages: int) -> None:
    results: dict[tuple[str, str], list[float]] = {}
    depths: list[int] = []
    for seed in range(1, args.seeds + 1):
        options = WorldOptions(tuple(args.letor), browsing=model)
        world = make_world(options, seed)
        known = propensities(world, options, seed, pages)
        depths.append(known["estimated"].depth)
        run = partial(quality, world, trees=args.trees)
        for method in args.methods:
            for depth in DEPTHS:
                results.setdefault((method, depth), []).append(run(known[depth], method, depth))
    title = f"NDCG@10, {model}, {pages:,} swap pages: positions estimated {sorted(depths)}"
    table = Table("method", *DEPTHS, "difference", title=title)
    for method in args.methods:
        before, after = (np.array(results[method, depth]) for depth in DEPTHS)
        error = stdev(after - before) / np.sqrt(before.size) if before.size > 1 else np.nan
        gain = f"{fmean(after - before):+.4f} ± {error:.4f}"
        table.add_row(method, f"{before.mean():.4f}", f"{after.mean():.4f}", gain)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
