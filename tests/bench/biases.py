"""How p and the iterations that learn biases change the quality of unbiased-lambdamart and dla.

    python -m tests.bench.biases [--seeds 3] [--queries 600] [--rounds 100] [--letor FILE ...]

Worlds differ by the production ranker (ridge regression, trees, noisy labels, random) and by the
browsing model. theta is 1 / k, 16 sessions per query, lists cut at 10. A cell is the fraction of
the gap in NDCG@10 from naive clicks to golden labels, by the means over seeds, on complete lists of
other queries; where the gap is below 0.05 it is the difference to naive instead. The last column
has the largest t- of p = 0 never frozen and of p = 0.5 frozen after 20 iterations.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import lightgbm as lgb
import numpy as np
from rich.console import Console
from rich.table import Table

from tests.bench.label_ranker import train_on_labels
from tests.support.in_memory import train_ranker
from tests.support.worlds import (
    Corpus,
    Log,
    click_log,
    features_table,
    groups_table,
    letor_corpus,
    synthetic_corpus,
)
from ulr.config.load import load_settings
from ulr.features.join import join_features
from ulr.kernels.ranking_metrics import ranking_metrics
from ulr.pairs.config import make_pair_config
from ulr.pairs.table import build_pair_table
from ulr.training.data import read_pairs
from ulr.training.plan import DLA, UNBIASED_LAMBDAMART, TrainPlan

BIAS_ROUNDS = {"never": 0, "20": 20}  # after which the biases are frozen
VARIANTS = {
    f"p={p:g} {name}": {"method": UNBIASED_LAMBDAMART, "bias_regularization": p, "bias_rounds": n}
    for name, n in BIAS_ROUNDS.items()
    for p in (0.0, 0.5, 1.0, 2.0)
} | {f"dla {name}": {"method": DLA, "bias_rounds": n} for name, n in BIAS_ROUNDS.items()}
SHOWN_BIASES = ("p=0 never", "p=0.5 20")
MIN_GAP = 0.05
SESSIONS, POSITIONS = 16, 10
Scores = Callable[[Corpus, int], np.ndarray]


def _ridge(corpus: Corpus, seed: int) -> np.ndarray:
    return corpus.scores  # ridge regression on 1% of the queries


def _trees(corpus: Corpus, seed: int) -> np.ndarray:
    rows = int(corpus.offsets[max(5, corpus.names.doc_counts.size // 100)])
    data = lgb.Dataset(corpus.features[:rows], corpus.labels[:rows])
    settings = {"objective": "regression", "num_leaves": 7, "min_data_in_leaf": 5, "verbose": -1,
                "num_threads": 1, "seed": seed}  # fmt: skip
    return np.asarray(lgb.train(settings, data, 30).predict(corpus.features))


def _noisy_labels(corpus: Corpus, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return corpus.labels + corpus.labels.std() * 1.5 * rng.normal(size=corpus.labels.size)


def _random(corpus: Corpus, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=corpus.labels.size)


RANKERS: dict[str, Scores] = {
    "ridge": _ridge, "trees": _trees, "noisy labels": _noisy_labels, "random": _random,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--letor", nargs="*", default=[], help="instead of the built-in corpus")
    parser.add_argument("--rankers", nargs="*", default=list(RANKERS), choices=list(RANKERS))
    parser.add_argument("--models", nargs="*", default=["continuous", "independent"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--queries", type=int, default=300, help="of the built-in corpus")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    table = Table(title=f"fraction of the gap, NDCG@10, {args.seeds} seeds, {args.rounds} trees")
    for column in ("world", "naive", "labels", *VARIANTS, "t-"):
        table.add_column(column, justify="left" if column == "world" else "right")
    fractions = []
    for ranker, model in itertools.product(args.rankers, args.models):
        worlds = [_world(args, ranker, model, seed) for seed in range(1, args.seeds + 1)]
        naive, labels, *values = np.mean([ndcg for ndcg, _ in worlds], axis=0)
        differences = np.array(values) - naive
        if labels - naive >= MIN_GAP:
            fractions.append(differences / (labels - naive))
            cells = [f"{fraction:.0%}" for fraction in fractions[-1]]
        else:
            cells = [f"{difference:+.3f}" for difference in differences]
        biases = ", ".join(f"{t:.1f}" for t in np.max([largest for _, largest in worlds], axis=0))
        table.add_row(f"{ranker}, {model}", f"{naive:.3f}", f"{labels:.3f}", *cells, biases)
    for name, summary in (("mean", np.mean), ("worst", np.min)):
        cells = [f"{v:.0%}" for v in summary(fractions, axis=0)] if fractions else []
        table.add_row(name, "", "", *cells)
    Console(width=170).print(table)


def _world(
    args: argparse.Namespace, ranker: str, model: str, seed: int
) -> tuple[list[float], list[float]]:
    """Return NDCG@10 of naive, labels and all variants, and the largest t- of SHOWN_BIASES."""
    corpus = synthetic_corpus(seed, args.queries * 4 // 3, 30, 25)
    queries = args.queries
    if args.letor:
        corpus = letor_corpus(args.letor, seed)
        queries = round(0.75 * len(corpus.names.queries))
    corpus = replace(corpus, scores=RANKERS[ranker](corpus, seed).astype(np.float32))
    log = click_log(corpus, queries, POSITIONS, SESSIONS, model=model, seed=seed)
    window = join_features(groups_table(corpus, log), features_table(corpus, queries))
    # The naive pairs are the counts that the variants learn from.
    data = read_pairs([build_pair_table(window, make_pair_config("naive", log.truth))[0]])
    lightgbm = {**load_settings(None).lightgbm, "num_threads": args.threads}
    plan = TrainPlan("naive", args.rounds, lightgbm)
    rankers = {name: train_ranker(data, replace(plan, **own)) for name, own in VARIANTS.items()}
    predictors = [
        train_ranker(data, plan).predict,
        _train_labels(corpus, log, lightgbm, args.rounds),
        *(trained.predict for trained in rankers.values()),
    ]
    largest = [max(rankers[name].biases.record()["t_minus"]) for name in SHOWN_BIASES]
    return [_quality(corpus, queries, predict) for predict in predictors], largest


def _train_labels(corpus: Corpus, log: Log, lightgbm: dict, rounds: int):
    return train_on_labels(corpus.features, corpus.labels, log.documents, lightgbm, rounds)


def _quality(corpus: Corpus, queries: int, predict: Callable[[np.ndarray], Sequence]) -> float:
    start = int(corpus.offsets[queries])
    scores = np.asarray(predict(corpus.features[start:]), np.float64)
    metrics = ranking_metrics(scores, corpus.labels[start:], corpus.offsets[queries:] - start)
    return float(np.nanmean(metrics, axis=0)[3])


if __name__ == "__main__":
    main()
