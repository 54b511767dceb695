"""Training on the ranks of an engine, and in one process with LightGBM's own learner, on two cores.

    python -m tests.bench.distributed [--quick] [--features N] [--trees N] [--engine local|spark]

All use the same pair files, objective and bins. "One process" is LightGBM's learner for one process
with two threads. "Alone" is `ulr train` with one worker; two workers have one thread each. "In
clear" is two workers whose frames are neither encrypted nor authenticated, to show what that costs.
Times of training are after ingestion; memory is the growth of a worker's process, as a multiple of
its part of the raw float32 matrix. The first tree is timed from the call of `train_on_ranks`, on an
engine whose workers have trained before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from tests.bench.engines import bench_engine
from ulr.engine.interface import Engine
from ulr.warehouse.schema import pairs_schema

ROOT = Path(__file__).parents[2]
DOCS, PAIRS, FILES = 20, 60, 8
ROUNDS = 2  # the contestants alternate and the best time counts: the machine may be busy
REPEATS = 3  # trainings of a contestant in its process; the first one loads kernels
SETTINGS = {"num_leaves": 31, "learning_rate": 0.1, "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": 5.0, "seed": 1}  # fmt: skip
NAMES = {"process": "one process, 2 threads", "1": "alone: one worker, 2 threads",
         "2": "two workers, 1 thread each", "clear": "two workers, in clear"}  # fmt: skip
WORKERS = {"1": 1, "2": 2, "clear": 2}
# Ratios to one process, by rows; no goal: for comparison.
GOALS = {400_000: {"1": 1.10, "2": 1.20, "clear": None}, 10_000: {"1": 1.3}}
SEALING_COST = 0.05  # of the training time in clear
FIRST_TREE_S, INGESTED = 5.0, 1_000_000  # at 4.4 million rows; rows per second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="20 trees, 10 times fewer rows")
    parser.add_argument("--queries", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument(
        "--only", choices=["process", "1", "2", "clear", "first"], help=argparse.SUPPRESS
    )
    parser.add_argument("--engine", choices=["local", "spark"], default="local")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.only:
        print(json.dumps(contest(args)))
        return
    if args.quick:
        args.trees = 20
    for rows, goals in GOALS.items():
        args.queries = rows // DOCS // (10 if args.quick and rows > 10_000 else 1)
        compare(args, goals)
    args.queries = 22_000 if args.quick else 220_000
    first_tree(args)


def compare(args: argparse.Namespace, goals: dict[str, float | None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_pairs(Path(folder), args.queries, args.features)
        contestants = ("process", *goals) * ROUNDS
        runs = [(only, in_process(args, only, folder)) for only in contestants]
    print_table({only: best([r for n, r in runs if n == only]) for only, _ in runs}, args, goals)


def first_tree(args: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write_pairs(Path(folder), args.queries, args.features)
        results = in_process(args, "first", folder)
    table = Table(title=f"first tree, {args.queries // FILES * FILES * DOCS:,} rows")
    for column in ("", "first tree s", "goal", "prepare s", "ingest s", "rows/s", "goal"):
        table.add_column(column, justify="right")
    for only, result in results.items():
        rows = sum(w["rows"] for w in result["workers"]) / longest(result, "ingest")
        table.add_row(NAMES[only], f"{result['first']:.1f}", f"{FIRST_TREE_S:g}",
                      f"{result['prepare']:.1f}", f"{longest(result, 'ingest'):.1f}",
                      f"{rows:,.0f}", f"{INGESTED:,}")  # fmt: skip
    Console(width=120).print(table)


def write_pairs(folder: Path, queries: int, width: int) -> None:
    """Write one list per query, with preferences that follow four of the features."""
    per_file = queries // FILES
    for number in range(FILES):
        rng = np.random.default_rng(number)
        x = rng.normal(size=(per_file * DOCS, width)).astype(np.float32)
        utility = x[:, 0] + np.sin(2 * x[:, 1]) + x[:, 2] * x[:, 3]
        every = np.stack(np.triu_indices(DOCS, 1), axis=1)
        chosen = np.sort(np.argsort(rng.random((per_file, len(every))), axis=1)[:, :PAIRS], axis=1)
        i, j = every[chosen].reshape(-1, 2).T
        start = np.repeat(np.arange(per_file) * DOCS, PAIRS)
        clicks = [rng.poisson(2 * np.exp(0.7 * utility[start + k])) for k in (i, j)]
        lists = {
            "doc_ids": (DOCS, np.tile(np.arange(DOCS).astype(str), per_file)),
            "labels": (DOCS, np.zeros(per_file * DOCS, np.int32)),
            "features": (DOCS * width, x.reshape(-1)),
            "group_sizes": (1, np.full(per_file, DOCS, np.int32)),
            "doc_rows": (DOCS, np.tile(np.arange(DOCS, dtype=np.int32), per_file)),
            "positions": (DOCS, np.tile(np.arange(1, DOCS + 1, dtype=np.int32), per_file)),
            "pair_counts": (1, np.full(per_file, PAIRS, np.int32)),
            "pair_i": (PAIRS, i.astype(np.int32)),
            "pair_j": (PAIRS, j.astype(np.int32)),
            "u_ij": (PAIRS, clicks[0].astype(np.float32)),
            "u_ji": (PAIRS, clicks[1].astype(np.float32)),
            "clicks": (DOCS, np.zeros(per_file * DOCS, np.float32)),
        }
        columns = [pa.array([f"q{number}-{q}" for q in range(per_file)])]
        for name in pairs_schema.names[1:]:
            size, values = lists[name]
            offsets = np.arange(per_file + 1, dtype=np.int32) * size
            columns.append(pa.ListArray.from_arrays(offsets, pa.array(values)))
        table = pa.table(columns, schema=pairs_schema)
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=1024)


def in_process(args: argparse.Namespace, only: str, folder: str) -> dict:
    """Run a contestant in a new process, whose memory contains nothing else."""
    options = {"engine": args.engine, "only": only, "folder": folder, "queries": args.queries,
               "features": args.features, "trees": args.trees}  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    Console(stderr=True).print(f"{only} ...")
    command = [sys.executable, "-m", "tests.bench.distributed", *words]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def contest(args: argparse.Namespace) -> dict:
    files = [str(f) for f in sorted(Path(args.folder).glob("*.parquet"))]
    if args.only == "process":
        return one_process(args, files)
    return time_first_tree(args, files) if args.only == "first" else on_ranks(args, files)


def one_process(args: argparse.Namespace, files: list[str]) -> dict:
    """Train with LightGBM's learner for one process and our gradients, on two threads."""
    from tests.support.in_memory import sampled_bins
    from ulr.training.checkpoint import TrainState
    from ulr.training.data import read_pairs
    from ulr.training.distributed.communicator import single_rank
    from ulr.training.loop import TrainingLoop
    from ulr.training.plan import TrainPlan
    from ulr.training.shard import RankShards, ShardBuilder

    plan = TrainPlan("joint", args.trees, {**SETTINGS, "num_threads": 2}, checkpoint_every=50)
    learner = plan.learner()
    bins = sampled_bins(read_pairs([pq.read_table(files[0])]), learner)
    results = []
    for _ in range(REPEATS):
        start = time.monotonic()
        builder = ShardBuilder(bins, args.queries // FILES * FILES * DOCS)
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(1024):
                builder.add(read_pairs([pa.Table.from_batches([batch])]))
        shard = builder.finish()
        ingested = time.monotonic()
        loop = TrainingLoop(single_rank(), plan, learner, RankShards(shard), TrainState())
        loop.run()
        seconds = {**vars(loop.timings), "train": time.monotonic() - ingested,
                   "ingest": ingested - start}  # fmt: skip
        results.append({"workers": [{"rows": shard.rows, "seconds": seconds}]})
    return best(results)


def on_ranks(args: argparse.Namespace, files: list[str]) -> dict:
    engine, sealed = bench_engine(args.engine), args.only != "clear"
    return best(
        [train(engine, args, files, WORKERS[args.only], sealed=sealed) for _ in range(REPEATS)]
    )


def time_first_tree(args: argparse.Namespace, files: list[str]) -> dict:
    """Train one tree with one and with two workers, each after a small training."""
    args.trees, results = 1, {}
    engine = bench_engine(args.engine)
    with tempfile.TemporaryDirectory() as folder:
        write_pairs(Path(folder), 200, args.features)
        few = [str(f) for f in sorted(Path(folder).glob("*.parquet"))]
        for workers in (1, 2):
            train(engine, args, few, workers)
            runs = [train(engine, args, files, workers) for _ in range(ROUNDS)]
            results[str(workers)] = min(runs, key=lambda run: run["first"])
    return results


def train(
    engine: Engine,
    args: argparse.Namespace,
    files: list[str],
    workers: int,
    *,
    sealed: bool = True,
) -> dict:
    from ulr.training.distributed import driver
    from ulr.training.distributed.driver import DistributedOptions, train_on_ranks
    from ulr.training.distributed.pair_files import PairFiles
    from ulr.training.distributed.task import Job
    from ulr.training.plan import TrainPlan

    plan = TrainPlan("joint", args.trees, SETTINGS, checkpoint_every=50)
    trees: list[float] = []
    driver.Job = partial(Job, sealed=sealed)  # no setting: only this benchmark sends in clear
    start = time.monotonic()
    result = train_on_ranks(
        engine, PairFiles(str(Path(files[0]).parent), files), plan, DistributedOptions(workers),
        on_event=lambda _: trees.append(time.monotonic() - start),
    )  # fmt: skip
    reports = [asdict(report) for report in result.reports]
    ingested = max(r["seconds"]["ingest"] for r in reports)
    first = trees[0] if trees else time.monotonic() - start  # the event may arrive later
    return {"workers": reports, "first": first, "prepare": first - ingested}


def print_table(
    results: dict[str, dict], args: argparse.Namespace, goals: dict[str, float | None]
) -> None:
    rows = args.queries // FILES * FILES * DOCS
    table = Table(title=f"{rows:,} rows x {args.features}, {args.trees} trees")
    for column in ("", "train s", "ratio", "goal", "gradient", "trees", "network",
                   "ingest rows/s", "memory x raw"):  # fmt: skip
        table.add_column(column, justify="right")
    base = longest(results["process"], "train")
    for only, result in results.items():
        train = longest(result, "train")
        parts = [f"{longest(result, n) / train:.0%}" for n in ("gradient", "trees", "network")]
        speed = rows / longest(result, "ingest")
        raw = [w["rows"] * args.features * 4 for w in result["workers"]]
        grown = [w.get("grown_bytes", 0) / r for w, r in zip(result["workers"], raw, strict=True)]
        memory = f"{max(grown):.2f}" if max(grown) else "-"
        goal = f"{goals[only]:.2f}" if goals.get(only) else ""
        table.add_row(NAMES[only], f"{train:.2f}", f"{train / base:.2f}", goal, *parts,
                      f"{speed:,.0f}", memory)  # fmt: skip
    Console(width=120).print(table)
    if "clear" in results:
        cost = longest(results["2"], "train") / longest(results["clear"], "train") - 1
        Console().print(f"encryption: {cost:+.1%} of training time; goal: {SEALING_COST:.0%}")


def best(results: list[dict]) -> dict:
    return min(results, key=lambda result: longest(result, "train"))


def longest(result: dict, name: str) -> float:
    return max(worker["seconds"][name] for worker in result["workers"])


if __name__ == "__main__":
    main()
