"""The fraction of the gap from naive clicks to labels that each method closes.

    python -m tests.bench.quality [--quick] [--peers] [--estimated PAGES]
    python -m tests.bench.quality --letor FILE ... [--estimated PAGES] [--sessions N]

The protocol of docs/methods.md section 10: theta is 1 / k, 16 sessions per query, lists cut at 10,
20 and 30, evaluated on complete lists of other queries. The upper end of the gap is LightGBM's
lambdarank on the golden labels of the same lists.

With LETOR files the methods compete with LightGBM and XGBoost on real features instead, under even
and Zipf traffic, each at its best number of trees by held-out loss (tests/bench/letor.py).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import lightgbm as lgb
import numpy as np
from rich.console import Console
from rich.table import Table

from tests.bench.biases import RANKERS
from tests.bench.contest import print_contest, run_contest
from tests.bench.experiments import estimated_propensities
from tests.bench.label_ranker import train_on_labels
from tests.bench.letor import CONTESTANTS, World, train_ours, worlds_of
from tests.support.in_memory import train_ranker
from tests.support.worlds import (
    Corpus,
    Log,
    click_log,
    features_table,
    groups_table,
    synthetic_corpus,
)
from ulr.config.load import load_settings
from ulr.features.join import join_features
from ulr.kernels.linear import LOSSES
from ulr.kernels.ranking_metrics import ranking_metrics
from ulr.pairs.config import make_pair_config
from ulr.pairs.table import build_pair_table
from ulr.pairs.weights import AUTO
from ulr.propensity.examination import Examination
from ulr.training.data import read_pairs
from ulr.training.plan import DLA, LINEAR, UNBIASED_LAMBDAMART, TrainPlan

METHODS = (AUTO, "joint, precise", "naive", "robust", "robust+", "pns", "prs", "ips-all",
           "affine", UNBIASED_LAMBDAMART,
           f"{UNBIASED_LAMBDAMART} p=0", f"{UNBIASED_LAMBDAMART} p=2", DLA, "joint",
           "joint, plain", "prs, linear logistic", "ips-all, linear hinge")  # fmt: skip
LABELS = "labels"
SESSIONS = 16
PEERS = ("LightGBM position", "XGBoost unbiased")


class Cell:
    """The log of one corpus, browsing model, cut and seed, and the quality of models on it."""

    def __init__(
        self, corpus: Corpus, log: Log, known: Examination, *, rounds: int, threads: int
    ) -> None:
        self.corpus, self.log, self.known, self.rounds = corpus, log, known, rounds
        self.queries = log.documents.shape[0]
        self.groups = groups_table(corpus, log)
        self.features = features_table(corpus, self.queries)
        self.lightgbm = {**load_settings(None).lightgbm, "num_leaves": 31, "num_threads": threads}

    def quality(self, name: str) -> np.ndarray:
        """Return NDCG@1, 3, 5, 10 of a method on the test queries."""
        if name == LABELS:
            return self._score(self._labels())
        if name in PEERS:
            return self._score(self._peer(name))
        return self._score(self._ours(name))

    def _auto(self):
        """Train the default, with the validation that it needs."""
        queries, sessions, positions = self.log.clicks.shape
        pages = self.log.clicks.reshape(-1, positions)
        query = np.repeat(np.arange(queries), sessions)
        world = World(self.corpus, queries, self.log.documents, query, pages, self.known)
        threads = self.lightgbm["num_threads"]
        return train_ours(world, AUTO, trees=self.rounds, threads=threads).predict

    def _ours(self, name: str):
        if name == AUTO:
            return self._auto()
        method, plain = name.partition(" p=")[0].partition(",")[0], name.endswith("plain")
        known = replace(self.known, alpha=self.known.theta, beta=np.zeros(self.known.depth))
        pair_config = make_pair_config(
            method, known, precision=name.endswith("precise"),
            co_click_variance=np.inf if plain else None,
        )  # fmt: skip
        window = join_features(self.groups, self.features)
        data = read_pairs([build_pair_table(window, pair_config)[0]])
        plan = TrainPlan(method, self.rounds, self.lightgbm, nonnegative_weights=not plain)
        if (loss := name.partition(", linear ")[2]) in LOSSES:
            plan = replace(plan, ranker=LINEAR, linear_loss=loss)
        if " p=" in name:  # unbiased-lambdamart as in the papers
            plan = replace(plan, bias_regularization=float(name[-1]), bias_rounds=0)
        return train_ranker(data, plan).predict

    def _labels(self):
        features, labels = self.corpus.features, self.corpus.labels
        return train_on_labels(features, labels, self.log.documents, self.lightgbm, self.rounds)

    def _peer(self, name: str):
        documents = np.repeat(self.log.documents, SESSIONS, axis=0)
        present = documents >= 0
        rows, sizes = documents[present], present.sum(axis=1)
        clicks = self.log.clicks.reshape(documents.shape)[present].astype(np.int32)
        x = self.corpus.features[rows]
        threads = self.lightgbm["num_threads"]
        if name.startswith("LightGBM"):
            position = np.broadcast_to(np.arange(documents.shape[1]), documents.shape)[present]
            own = {"objective": "lambdarank", "num_leaves": 31, "learning_rate": 0.05}
            data = lgb.Dataset(x, clicks, group=sizes, position=position)
            own |= {"feature_fraction": 0.9, "num_threads": threads, "verbose": -1}
            return lgb.train(own, data, self.rounds).predict
        import xgboost as xgb

        data = xgb.QuantileDMatrix(x, clicks, group=sizes)
        own = {"objective": "rank:ndcg", "lambdarank_unbiased": True, "eta": 0.05, "max_leaves": 31}
        own |= {"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": 30}
        own |= {"max_depth": 0, "grow_policy": "lossguide", "colsample_bytree": 0.9}
        booster = xgb.train({**own, "nthread": threads}, data, self.rounds)
        return lambda features: booster.predict(xgb.DMatrix(features))

    def _score(self, predict) -> np.ndarray:
        start = int(self.corpus.offsets[self.queries])
        offsets = self.corpus.offsets[self.queries :] - start
        scores = np.asarray(predict(self.corpus.features[start:]), np.float64)
        return np.nanmean(ranking_metrics(scores, self.corpus.labels[start:], offsets), axis=0)[:4]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, lists cut at 20, 100 trees")
    parser.add_argument(
        "--letor", nargs="*", default=[], help="LETOR files instead of the built-in corpus"
    )
    parser.add_argument("--peers", action="store_true", help="also LightGBM and XGBoost debiasing")
    parser.add_argument("--cuts", type=int, nargs="*", default=[10, 20, 30])
    parser.add_argument("--models", nargs="*", default=["continuous", "independent"])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=0, help="3, or 10 with LETOR files")
    parser.add_argument("--traffics", nargs="*", default=["even", "zipf"], help="LETOR files only")
    parser.add_argument("--sessions", type=int, default=SESSIONS, help="LETOR files only")
    parser.add_argument("--noise", type=float, default=0.0, help="LETOR files only")
    parser.add_argument("--ranker", default="ridge", choices=list(RANKERS),
                        help="production ranker, LETOR files only")  # fmt: skip
    parser.add_argument("--save", type=Path, help="JSON of all results, LETOR files only")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--queries", type=int, default=6000)
    parser.add_argument("--estimated", type=int, default=0, metavar="PAGES",
                        help="estimate propensities from this many swap pages")  # fmt: skip
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.letor:
        _contest(args)
        return
    if args.quick:
        args.cuts, args.seeds, args.rounds = [20], 1, 100
    for model in args.models:
        for cut in args.cuts:
            _print(model, cut, _run(args, model, cut))


def _contest(args: argparse.Namespace) -> None:
    worlds = worlds_of(
        {"letor": tuple(args.letor)}, args.models, args.traffics, swap_pages=args.estimated,
        sessions=args.sessions, noise=args.noise, ranker=args.ranker,
    )  # fmt: skip
    records = run_contest(worlds, CONTESTANTS, seeds=args.seeds or 10, trees=args.rounds,
                          processes=args.threads, save=args.save)  # fmt: skip
    print_contest(records, AUTO, [name for name in CONTESTANTS if name not in (AUTO, LABELS)])


def _run(args: argparse.Namespace, model: str, cut: int) -> dict[str, np.ndarray]:
    """Return an array for each method: seeds x (NDCG@1, 3, 5, 10, seconds)."""
    names = [*args.methods, LABELS, *(PEERS if args.peers else ())]
    results: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for seed in range(1, (args.seeds or 3) + 1):
        corpus = synthetic_corpus(seed, args.queries * 4 // 3, 30, 25)
        log = click_log(corpus, args.queries, cut, SESSIONS, model=model, seed=seed)
        known = estimated_propensities(log, args.estimated, seed) if args.estimated else log.truth
        cell = Cell(corpus, log, known, rounds=args.rounds, threads=args.threads)
        for name in names:
            start = time.perf_counter()
            quality = cell.quality(name)
            results[name].append(np.append(quality, time.perf_counter() - start))
    return {name: np.array(rows) for name, rows in results.items()}


def _print(model: str, cut: int, results: dict[str, np.ndarray]) -> None:
    low, high = (results[name][:, :4].mean(axis=0) for name in ("naive", LABELS))
    order: Sequence[str] = sorted(results, key=lambda name: -results[name][:, 0].mean())
    table = Table(title=f"{model}, lists cut at {cut}")
    for column in ("method", "ndcg@1", "@3", "@5", "@10", "gap@1", "@3", "@5", "@10", "seconds"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name in order:
        mean = results[name].mean(axis=0)
        gap = (mean[:4] - low) / (high - low)
        cells = [f"{v:.4f}" for v in mean[:4]] + [f"{g:.0%}" for g in gap] + [f"{mean[4]:.1f}"]
        table.add_row(name, *cells)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
