"""Nanoseconds per pair of our gradient pass and of LightGBM's C++ lambdarank, in one run.

    python -m tests.bench.kernels [--queries N] [--docs N] [--rounds N]

Both get the same lists, labels and scores. LightGBM's pass cannot be called by itself: its time is
that of an iteration with a stump and `lambdarank`, minus that with `regression`, whose gradient is
negligible. Rounds alternate and the best of each counts, because the machine may be busy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import lightgbm as lgb
import numba
import numpy as np
from rich.console import Console
from rich.table import Table

from tests.support.pair_samples import one_list_per_query
from ulr.kernels.lambdas import lambda_gradients
from ulr.kernels.layout import PairLists, WeightedPairs, offsets_of
from ulr.training.objective import GRID

GRADES = (0.5, 0.25, 0.15, 0.07, 0.03)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--docs", type=int, nargs="*", default=[10, 20, 100])
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    table = Table(title="gradient pass, nanoseconds per pair of different labels")
    for column in ("documents", "pairs", "threads", "ulr", "LightGBM", "ratio"):
        table.add_column(column, justify="right")
    for docs in args.docs:
        queries = max(args.queries * 20 // docs // max(docs // 20, 1), 100)
        labels, scores = _lists(queries, docs)
        pairs = _label_pairs(labels)
        for threads in (1, 2):
            ours, lightgbm = _race(labels, scores, pairs, threads, args.rounds)
            cells = (ours * 1e9 / pairs.pairs, lightgbm * 1e9 / pairs.pairs)
            table.add_row(
                f"{docs}", f"{pairs.pairs:,}", f"{threads}", *(f"{c:.1f}" for c in cells),
                f"{ours / lightgbm:.2f}",
            )  # fmt: skip
    Console().print(table)


def _lists(queries: int, docs: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    labels = rng.choice(len(GRADES), p=GRADES, size=(queries, docs))
    return labels, rng.normal(size=(queries, docs))


def _label_pairs(labels: np.ndarray) -> PairLists:
    """Return every pair of different labels, weighted by its gain as in LightGBM."""
    docs = labels.shape[1]
    i, j = np.triu_indices(docs, 1)
    gains = 2.0**labels
    difference = gains[:, i] - gains[:, j]
    kept = difference != 0
    pairs = WeightedPairs.zeros(offsets_of(kept.sum(axis=1)))
    pairs.i[:], pairs.j[:] = (np.broadcast_to(x, kept.shape)[kept] for x in (i, j))
    pairs.u_ij[:], pairs.u_ji[:] = np.maximum(difference[kept], 0), np.maximum(-difference[kept], 0)
    return one_list_per_query(docs, pairs)


def _race(
    labels: np.ndarray, scores: np.ndarray, pairs: PairLists, threads: int, rounds: int
) -> tuple[float, float]:
    numba.set_num_threads(threads)
    flat = scores.reshape(-1).copy()
    grad, hess = np.empty(flat.size, np.float32), np.empty(flat.size, np.float32)
    lambdarank, regression = (_booster(labels, flat, objective, threads)
                        for objective in ("lambdarank", "regression"))  # fmt: skip

    def ours() -> None:
        lambda_gradients(flat, pairs, grad, hess, truncation_level=30, grid=GRID)

    steps: list[Callable[[], object]] = [ours, lambdarank.update, regression.update]
    best = [np.inf] * len(steps)
    for _ in range(rounds + 1):  # the first one compiles and allocates
        for number, step in enumerate(steps):
            start = time.perf_counter()
            step()
            best[number] = min(best[number], time.perf_counter() - start)
    return best[0], best[1] - best[2]


def _booster(labels: np.ndarray, scores: np.ndarray, objective: str, threads: int) -> lgb.Booster:
    """Return a learner of stumps that starts from the scores; its only feature is noise."""
    feature = np.random.default_rng(2).normal(size=(scores.size, 1))
    parameters = {
        "objective": objective, "num_leaves": 2, "num_threads": threads, "learning_rate": 1e-9,
        "lambdarank_norm": False, "lambdarank_truncation_level": 30, "verbose": -1,
    }  # fmt: skip
    sizes = np.full(labels.shape[0], labels.shape[1])
    data = lgb.Dataset(feature, labels.reshape(-1), group=sizes, init_score=scores)
    return lgb.Booster(parameters, data)


if __name__ == "__main__":
    main()
