"""Training on aggregated sessions and peers on all sessions: seconds, memory, golden NDCG.

    python -m tests.bench.training [--quick] [--queries N] [--trees N] [--contestants NAME ...]

20,000 queries x 20 documents x 50 features, 16 sessions per query. `ulr` starts from the groups
table, so its time includes the pairs; `Ranker` and peers start from the sessions as arrays, Ranker
with the ids of queries and documents and without them. Every contestant runs in a separate process.
Its memory is the peak minus the memory in use before it began. Models with one hash have the same
bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tests.support.worlds import (
    Corpus,
    Log,
    click_log,
    features_table,
    groups_table,
    synthetic_corpus,
)
from ulr.training.distributed.task import peak_bytes, reset_peak, resident_bytes

ROOT = Path(__file__).parents[2]
OURS, MORE = "ulr joint", "ulr joint, 10x sessions"
CHOSEN = "ulr auto"  # with its trials and early stopping
RANKER, NO_IDS = "Ranker joint", "Ranker joint, no ids"
PEERS = ("LightGBM lambdarank", "LightGBM position", "XGBoost unbiased")
THREADS = 2
RATE = 0.1  # LightGBM's default, for all: with 0.05, 100 trees are too few


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="2,000 queries, 30 trees")
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--model", default="continuous")
    parser.add_argument("--contestants", nargs="+", help="by default all")
    parser.add_argument("--only", help=argparse.SUPPRESS)  # in the process of a contestant
    args = parser.parse_args()
    if args.quick:
        args.queries, args.trees = 2000, 30
    if args.only:
        print(json.dumps(_contest(args)))
        return
    results = {}
    for name in args.contestants or (OURS, MORE, CHOSEN, RANKER, NO_IDS, *PEERS):
        results[name] = _in_process(args, name)
        print(f"{name}: {results[name]['seconds']:.1f} s", file=sys.stderr)
    _print(results)


def _in_process(args: argparse.Namespace, name: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.training", "--only", name, "--model", args.model]
    command += ["--queries", str(args.queries), "--trees", str(args.trees)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _contest(args: argparse.Namespace) -> dict[str, Any]:
    corpus = synthetic_corpus(1, args.queries * 5 // 4, 20, 50)
    sessions = 160 if args.only == MORE else 16
    log = click_log(corpus, args.queries, 20, sessions, model=args.model, seed=1)
    if args.only in (OURS, MORE, CHOSEN):
        inputs = groups_table(corpus, log), features_table(corpus, args.queries)
        _warm(corpus)
        runner = _chosen if args.only == CHOSEN else _ours
    else:
        inputs, runner = _expanded(corpus, log), _lightgbm if "LightGBM" in args.only else _xgboost
        if args.only in (RANKER, NO_IDS):
            inputs, runner = (*inputs, corpus.names if args.only == RANKER else None), _ranker
            _warm_ranker(corpus)
    reset_peak()  # of making the log
    before = resident_bytes()
    start = time.perf_counter()
    predict = runner(inputs, log, args)
    seconds = time.perf_counter() - start
    memory = peak_bytes() - before
    quality = _ndcg(corpus, args.queries, predict)
    return {"seconds": seconds, "bytes": memory, "model": _hash_of(predict),
            **dict(zip(["1", "3", "5", "10"], quality, strict=True))}  # fmt: skip


def _hash_of(predict) -> str:
    """Return a hash of the text of a model of `ulr`, "" for a peer's."""
    model = getattr(predict, "__self__", None)
    booster = getattr(model, "booster_", None) or getattr(model, "booster", None)
    text = "" if booster is None else booster.model_to_string()
    return hashlib.sha256(text.encode()).hexdigest()[:8] if text else ""


def _ours(inputs: tuple, log: Log, args: argparse.Namespace):
    from tests.support.in_memory import train_ranker
    from ulr.config.load import load_settings
    from ulr.features.join import join_features
    from ulr.pairs.config import make_pair_config
    from ulr.pairs.table import build_pair_table
    from ulr.training.data import read_pairs
    from ulr.training.plan import TrainPlan

    table, _ = build_pair_table(join_features(*inputs), make_pair_config("joint", log.truth))
    own = {"num_threads": THREADS, "learning_rate": RATE}
    lightgbm = {**load_settings(None).lightgbm, **own}
    plan = TrainPlan("joint", args.trees, lightgbm)
    return train_ranker(read_pairs([table]), plan).predict


def _chosen(inputs: tuple, log: Log, args: argparse.Namespace):
    from tests.support.in_memory import train_ranker
    from ulr.config.load import load_settings
    from ulr.features.join import join_features
    from ulr.features.split import sample_queries
    from ulr.pairs.config import make_pair_config
    from ulr.pairs.table import build_pair_table
    from ulr.pairs.weightings import training_columns, validation_columns
    from ulr.training.data import read_pairs, split_queries
    from ulr.training.plan import TrainPlan

    table, _ = build_pair_table(join_features(*inputs), make_pair_config("auto", log.truth))
    held_out = sample_queries(table["query_id"].combine_chunks(), 0.1, "validation")
    train = split_queries(read_pairs([table], training_columns("auto")), ~held_out)
    validation = split_queries(read_pairs([table], [validation_columns("auto")]), held_out)
    own = {"num_threads": THREADS, "learning_rate": RATE}
    lightgbm = {**load_settings(None).lightgbm, **own}
    plan = TrainPlan("auto", args.trees, lightgbm, early_stopping_round=50)
    return train_ranker(train, plan, validation=validation).predict


def _warm(corpus: Corpus) -> None:
    """Load or compile the kernels on a few queries, as a long-running worker has done."""
    few = click_log(corpus, 20, 20, 4, model="continuous", seed=2)
    inputs = groups_table(corpus, few), features_table(corpus, 20)
    _ours(inputs, few, argparse.Namespace(trees=2))
    _chosen(inputs, few, argparse.Namespace(trees=2))


def _ranker(inputs: tuple, log: Log, args: argparse.Namespace):
    import pyarrow as pa

    from ulr import Ranker

    features, rows, clicks, position, names = inputs
    x, ids = features[rows], {}
    if names is not None:
        take = pa.array(rows)
        ids = {"query": names.query_of_document.take(take), "doc": names.documents.take(take)}
    k, v = np.triu_indices(log.truth.depth)
    psi = pa.table({"k": k + 1, "l": v + 1, "psi": log.truth.psi[k, v]})
    ranker = Ranker(
        "joint", psi, n_estimators=args.trees, learning_rate=RATE, n_jobs=THREADS,
        early_stopping_rounds=0,
    )  # fmt: skip
    group = np.full(x.shape[0] // log.clicks.shape[2], log.clicks.shape[2])
    return ranker.fit(x, clicks, group=group, position=position + 1, **ids).predict


def _warm_ranker(corpus: Corpus) -> None:
    few = click_log(corpus, 20, 20, 4, model="continuous", seed=2)
    for names in (corpus.names, None):
        _ranker((*_expanded(corpus, few), names), few, argparse.Namespace(trees=2))


def _expanded(corpus: Corpus, log: Log) -> tuple[np.ndarray, ...]:
    """Return document rows, clicks and positions of every session."""
    queries, sessions, positions = log.clicks.shape
    rows = np.repeat(log.documents, sessions, axis=0).reshape(-1)
    position = np.tile(np.arange(positions, dtype=np.int32), queries * sessions)
    return corpus.features, rows, log.clicks.reshape(-1).astype(np.int32), position


def _lightgbm(inputs: tuple, log: Log, args: argparse.Namespace):
    import lightgbm as lgb

    features, rows, clicks, position = inputs
    x = features[rows]  # peers train on one row per session and document
    sizes = np.full(x.shape[0] // log.clicks.shape[2], log.clicks.shape[2])
    data = lgb.Dataset(x, clicks, group=sizes)
    if args.only.endswith("position"):
        data.set_position(position)
    own = {"objective": "lambdarank", "num_leaves": 31, "learning_rate": RATE, "verbose": -1}
    own |= {"feature_fraction": 0.9, "num_threads": THREADS}
    return lgb.train(own, data, args.trees).predict


def _xgboost(inputs: tuple, log: Log, args: argparse.Namespace):
    import xgboost as xgb

    features, rows, clicks, _ = inputs
    x = features[rows]
    sizes = np.full(x.shape[0] // log.clicks.shape[2], log.clicks.shape[2])
    data = xgb.QuantileDMatrix(x, clicks, group=sizes)
    own = {"objective": "rank:ndcg", "lambdarank_unbiased": True, "eta": RATE, "max_leaves": 31}
    own |= {"grow_policy": "lossguide", "max_depth": 0, "nthread": THREADS}
    own |= {"lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": 30}
    booster = xgb.train({**own, "colsample_bytree": 0.9}, data, args.trees)
    return lambda features: booster.predict(xgb.DMatrix(features))


def _ndcg(corpus: Corpus, queries: int, predict) -> list[float]:
    from ulr.kernels.ranking_metrics import ranking_metrics

    start = int(corpus.offsets[queries])
    scores = np.asarray(predict(corpus.features[start:]), np.float64)
    offsets = corpus.offsets[queries:] - start
    values = ranking_metrics(scores, corpus.labels[start:], offsets)
    return np.nanmean(values, axis=0)[:4].tolist()


def _print(results: dict[str, dict[str, Any]]) -> None:
    first, ours = next(iter(results.items()))
    table = Table(title=f"training; ratios to {first}")
    for column in (
        "contestant",
        "seconds",
        "ratio",
        "MB",
        "ratio",
        "ndcg@1",
        "@3",
        "@5",
        "@10",
        "model",
    ):
        table.add_column(column, justify="left" if column == "contestant" else "right")
    for name, row in results.items():
        table.add_row(
            name, f"{row['seconds']:.1f}", f"{row['seconds'] / ours['seconds']:.1f}",
            f"{row['bytes'] / 1e6:.0f}", f"{row['bytes'] / max(ours['bytes'], 1e6):.1f}",
            *(f"{row[k]:.4f}" for k in ("1", "3", "5", "10")), row["model"],
        )  # fmt: skip
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
