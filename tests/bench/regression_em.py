"""Bias and cost of regression-EM on worlds with features (docs/methods.md section 3.7).

    python -m tests.bench.regression_em [--seeds 4] [--queries 4000] [--pages 200000] [--trees 100]

The built-in world, ranked by its production ranker: every document is at one position, so features
alone separate theta from relevance. theta is 1 / k. `limit` repeats the estimate with the true
relevance in place of the model: what is left there is noise.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from tests.support.worlds import synthetic_corpus
from ulr.config.load import load_settings
from ulr.propensity.exposures import Exposures
from ulr.propensity.regression_em import em_curve
from ulr.simulate.traffic import Catalogue, query_shares, rank_catalogue

POSITIONS, DOCUMENTS, FEATURES, BLOCKS = 10, 20, 16, 32
THETA = 1 / np.arange(1, POSITIONS + 1)


def exposures(seed: int, queries: int, pages: int, zipf: float) -> tuple[Exposures, np.ndarray]:
    """Return the exposures of a simulated log, and the true relevance of its documents."""
    corpus = synthetic_corpus(seed, queries, DOCUMENTS, FEATURES)
    catalogue = Catalogue(corpus.names, corpus.labels, corpus.scores, corpus.max_label)
    shown = rank_catalogue(catalogue, POSITIONS, drift=0.0, noise=0.1, seed=seed, day=0)
    rng = np.random.default_rng(seed)
    sessions = np.repeat(rng.multinomial(pages, query_shares(queries, zipf, 0.0)), POSITIONS)
    relevance, used = shown.relevance.ravel(), np.flatnonzero(sessions)
    position = np.tile(np.arange(POSITIONS), queries)
    clicks = rng.binomial(sessions, THETA[position] * relevance)
    block = rng.integers(BLOCKS, size=queries).repeat(POSITIONS)
    return Exposures(
        np.arange(used.size), position[used], clicks[used].astype(float),
        sessions[used].astype(float), block[used], corpus.features[shown.documents.ravel()[used]],
    ), relevance[used]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--queries", type=int, default=4_000)
    parser.add_argument("--pages", type=int, default=200_000)
    em = load_settings(None, []).propensities.regression_em
    parser.add_argument("--trees", type=int, default=em.trees)
    options = parser.parse_args()
    table = Table("traffic", "seed", "mean", "largest", "in interval", "limit", "CPU s", "slope",
                  "rounds")  # fmt: skip
    for name, zipf in (("even", 0.0), ("Zipf", 1.0)):
        for seed in range(options.seeds):
            shown, relevance = exposures(seed, options.queries, options.pages, zipf)
            start = time.process_time()
            curve = em_curve(
                shown,
                POSITIONS,
                rounds=em.rounds,
                trees=options.trees,
                leaves=em.leaves,
                min_clicks=50,
            )
            seconds = time.process_time() - start
            error = np.abs(curve.theta / THETA - 1)[1:]
            low, high = curve.interval()
            inside = np.mean(((low <= THETA) & (high >= THETA))[1:])
            table.add_row(
                name, str(seed), f"{error.mean():.1%}", f"{error.max():.1%}", f"{inside:.0%}",
                f"{_limit(shown, relevance):.1%}", f"{seconds:.1f}",
                f"{curve.relevance.slope:.2f}", str(curve.relevance.rounds),
            )  # fmt: skip
    Console(width=140).print(table)


def _limit(shown: Exposures, relevance: np.ndarray) -> float:
    clicks = np.bincount(shown.position, shown.clicks, POSITIONS)
    expected = np.bincount(shown.position, shown.impressions * relevance[shown.document], POSITIONS)
    theta = clicks / expected
    return float(np.mean(np.abs(theta / theta[0] / THETA - 1)[1:]))


if __name__ == "__main__":
    main()
