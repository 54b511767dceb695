"""Nanoseconds per pair of our gradient pass and of LightGBM's C++ lambdarank, in one run.

    python -m tests.bench.kernels [--quick] [--queries N] [--docs N] [--rounds N]

The first table is for labelled lists, one a query. Both get the same lists, labels and scores.
LightGBM's pass cannot be called by itself: its time is that of an iteration with a stump and
`lambdarank`, minus that with `regression`, whose gradient is negligible. Rounds alternate and the
best of each counts, because the machine may be busy.

The second table is for displayed rankings that do not repeat: 20 lists of ten per query, most with
one click. The pairs of each list are a few, and its documents are shared with other lists.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import lightgbm as lgb
import numpy as np
from rich.console import Console
from rich.table import Table

from tests.support.pair_samples import one_list_per_query
from ulr.kernels.lambdas import lambda_gradients
from ulr.kernels.layout import PairLists, WeightedPairs, offsets_of
from ulr.kernels.pair_runs import PairRuns, pair_runs
from ulr.kernels.threads import use_threads
from ulr.training.objective import GRID

GOAL = 0.5  # times LightGBM
GOAL_NS = 7.0  # per pair of rankings that do not repeat, on one thread
LISTS, ROWS, SHOWN = 20, 22, 10  # of a query: rankings, documents, documents shown in a ranking
GRADES = (0.5, 0.25, 0.15, 0.07, 0.03)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--docs", type=int, nargs="*", default=[10, 20, 100])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="a tenth of the queries, 5 rounds")
    args = parser.parse_args()
    if args.quick:
        args.queries, args.rounds = args.queries // 10, 5
    table = Table(title="gradient pass, nanoseconds per pair of different labels")
    for column in ("documents", "pairs", "threads", "ulr", "LightGBM", "ratio", "goal"):
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
                f"{ours / lightgbm:.2f}", f"{GOAL}",
            )  # fmt: skip
    console = Console()
    console.print(table)
    console.print(_distinct_table(args.queries, args.rounds))


def _distinct_table(queries: int, rounds: int) -> Table:
    pairs = _distinct_rankings(queries)
    runs, scores = pair_runs(pairs), np.random.default_rng(3).normal(size=pairs.rows)
    lists = pairs.group_docs.size - 1
    table = Table(title=f"gradient pass, {lists:,} rankings of {SHOWN} that do not repeat")
    for column in ("pairs a list", "threads", "ns a list", "ns a pair", "goal"):
        table.add_column(column, justify="right")
    for threads in (1, 2):
        use_threads(threads)
        (seconds,) = _best([_our_pass(runs, scores)], rounds)
        table.add_row(
            f"{pairs.pairs / lists:.1f}", f"{threads}", f"{seconds * 1e9 / lists:.0f}",
            f"{seconds * 1e9 / pairs.pairs:.1f}", f"{GOAL_NS:.0f}" if threads == 1 else "",
        )  # fmt: skip
    return table


def _distinct_rankings(queries: int) -> PairLists:
    """Return random rankings with one click each, a fifth of them with a second one."""
    rng = np.random.default_rng(1)
    lists = queries * LISTS
    documents = np.argsort(rng.random((lists, ROWS)), axis=1)[:, :SHOWN]
    clicked = np.zeros((lists, SHOWN), bool)
    clicked[np.arange(lists), np.minimum(rng.geometric(0.35, lists), SHOWN) - 1] = True
    more = np.flatnonzero(rng.random(lists) < 0.2)
    clicked[more, rng.integers(0, SHOWN, more.size)] = True
    i, j = np.triu_indices(SHOWN, 1)
    kept = clicked[:, i] | clicked[:, j]
    pairs = WeightedPairs.zeros(offsets_of(kept.sum(axis=1)))
    pairs.i[:], pairs.j[:] = (np.broadcast_to(x, kept.shape)[kept] for x in (i, j))
    for clicks, weights in ((clicked[:, i], pairs.u_ij), (clicked[:, j], pairs.u_ji)):
        weights[:] = clicks[kept] * rng.uniform(1, 8, kept.sum())
    at = np.arange(lists + 1)
    return PairLists(
        np.arange(queries + 1) * ROWS, np.arange(queries + 1) * LISTS, at * SHOWN, pairs.offsets,
        documents.reshape(-1).astype(np.int32),
        np.tile(np.arange(1, SHOWN + 1, dtype=np.int32), lists), *pairs[1:],
        clicked.reshape(-1).astype(np.float32),
    )  # fmt: skip


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
    use_threads(threads)
    flat = scores.reshape(-1).copy()
    lambdarank, regression = (_booster(labels, flat, objective, threads)
                        for objective in ("lambdarank", "regression"))  # fmt: skip
    steps = [_our_pass(pair_runs(pairs), flat), lambdarank.update, regression.update]
    ours, with_lambdas, without = _best(steps, rounds)
    return ours, with_lambdas - without


def _our_pass(runs: PairRuns, scores: np.ndarray) -> Callable[[], object]:
    gradient, hessian = np.empty((2, scores.size), np.float32)
    return lambda: lambda_gradients(scores, runs, gradient, hessian, grid=GRID)


def _best(steps: list[Callable[[], object]], rounds: int) -> list[float]:
    """Return the least seconds of each step."""
    best = [np.inf] * len(steps)
    for _ in range(rounds + 1):  # the first one compiles and allocates
        for number, step in enumerate(steps):
            start = time.perf_counter()
            step()
            best[number] = min(best[number], time.perf_counter() - start)
    return best


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
