"""Seconds and memory of two barrier workers with one thread each, and of one process with two.

    python -m tests.bench.distributed [--quick] [--queries N] [--features N] [--trees N]

50,000 queries of 20 documents and 50 features: one million rows. All use the same pair files,
objective and bins. "One process" is LightGBM's learner for one process; "alone" is `ulr train` with
one worker. Times are those of training after ingestion. Memory is the growth of a worker's process,
as a multiple of its part of the raw float32 matrix.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from ulr.warehouse.schema import pairs_schema

ROOT = Path(__file__).parents[2]
DOCS, PAIRS, FILES = 20, 60, 8
ROUNDS = 2  # the contestants alternate and the best time counts: the machine may be busy
SETTINGS = {"num_leaves": 31, "learning_rate": 0.1, "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": 5.0, "seed": 1}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="5,000 queries, 20 trees")
    parser.add_argument("--queries", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--trees", type=int, default=100)
    parser.add_argument("--only", choices=["process", "1", "2"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.quick:
        args.queries, args.trees = 5000, 20
    if args.only:
        print(json.dumps(contest(args)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_pairs(Path(folder), args.queries, args.features)
        runs = [(only, in_process(args, only, folder)) for only in ("process", "2", "1") * ROUNDS]
        results = {only: best([r for name, r in runs if name == only]) for only, _ in runs}
    print_table(results, args)


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
    options = {"only": only, "folder": folder, "queries": args.queries,
               "features": args.features, "trees": args.trees}  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    Console(stderr=True).print(f"{only} ...")
    command = [sys.executable, "-m", "tests.bench.distributed", *words]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def contest(args: argparse.Namespace) -> dict:
    files = [str(f) for f in sorted(Path(args.folder).glob("*.parquet"))]
    return one_process(args, files) if args.only == "process" else on_spark(args, files)


def one_process(args: argparse.Namespace, files: list[str]) -> dict:
    """Train with LightGBM's learner for one process and our gradients, on two threads."""
    from ulr.training.checkpoint import TrainState
    from ulr.training.data import read_pairs
    from ulr.training.distributed.communicator import single_rank
    from ulr.training.local import sampled_bins
    from ulr.training.loop import TrainingLoop
    from ulr.training.plan import TrainPlan
    from ulr.training.shard import RankShards, ShardBuilder

    plan = TrainPlan("joint", args.trees, {**SETTINGS, "num_threads": 2})
    learner = plan.learner()
    first = read_pairs([pq.read_table(files[0])])
    start = time.monotonic()
    builder = ShardBuilder(sampled_bins(first, learner), args.queries // FILES * FILES * DOCS)
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(1024):
            builder.add(read_pairs([pa.Table.from_batches([batch])]))
    shard = builder.finish()
    ingested = time.monotonic() - start
    shards = RankShards(shard)
    warm_up = replace(plan, num_iterations=1)
    loop = TrainingLoop(single_rank(), warm_up, learner, shards, TrainState())
    loop.run()
    loop = TrainingLoop(single_rank(), plan, learner, shards, TrainState())
    start = time.monotonic()
    loop.run()
    seconds = {**vars(loop.timings), "train": time.monotonic() - start, "ingest": ingested}
    return {"workers": [{"rows": shard.rows, "seconds": seconds}]}


def on_spark(args: argparse.Namespace, files: list[str]) -> dict:
    from dataclasses import asdict

    from ulr.config.load import load_settings
    from ulr.engine.session import start_session
    from ulr.training.distributed.driver import DistributedOptions, train_on_spark
    from ulr.training.distributed.shuffle import PairFiles
    from ulr.training.plan import TrainPlan

    settings = load_settings(None, ["spark.master=local[2]", "spark.driver.memory=3g"])
    spark = start_session("bench", settings.spark)
    plan = TrainPlan("joint", args.trees, SETTINGS, checkpoint_every=50)
    source = PairFiles(args.folder, files)
    start = time.monotonic()
    result = train_on_spark(spark, source, plan, DistributedOptions(int(args.only)))
    total = time.monotonic() - start
    spark.stop()
    return {"workers": [asdict(r) for r in result.reports], "total": total}


def print_table(results: dict[str, dict], args: argparse.Namespace) -> None:
    names = {"process": "one process, 2 threads", "2": "two barrier workers, 1 thread each",
             "1": "alone: one barrier worker, 2 threads"}  # fmt: skip
    table = Table(title=f"{args.queries * DOCS:,} rows x {args.features}, {args.trees} trees")
    for column in ("", "train s", "ratio", "gradient", "trees", "network", "ingest rows/s",
                   "memory x raw"):  # fmt: skip
        table.add_column(column, justify="right")
    base = longest(results["process"], "train")
    for only, result in results.items():
        train = longest(result, "train")
        parts = [f"{longest(result, n) / train:.0%}" for n in ("gradient", "trees", "network")]
        rows = sum(w["rows"] for w in result["workers"]) / longest(result, "ingest")
        raw = [w["rows"] * args.features * 4 for w in result["workers"]]
        grown = [w.get("grown_bytes", 0) / r for w, r in zip(result["workers"], raw, strict=True)]
        memory = f"{max(grown):.2f}" if max(grown) else "-"
        table.add_row(names[only], f"{train:.1f}", f"{train / base:.2f}", *parts, f"{rows:,.0f}",
                      memory)  # fmt: skip
    Console(width=120).print(table)


def best(results: list[dict]) -> dict:
    return min(results, key=lambda result: longest(result, "train"))


def longest(result: dict, name: str) -> float:
    return max(worker["seconds"][name] for worker in result["workers"])


if __name__ == "__main__":
    main()
