"""Seconds to score a features table, and of LightGBM's predict on the same rows in memory.

    python -m tests.bench.score [--rows N] [--features N] [--quick] [--engines local,spark]

`score` reads Parquet, scores, sorts within each query and writes Parquet. LightGBM predicts the
matrix with as many threads as the engine has cores. Goal of the first engine: at most 1.5 times as
long.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time

import lightgbm as lgb
import numpy as np
import pyarrow as pa
from rich.console import Console

from tests.bench.engines import bench_engine
from tests.bench.measure import PeakMemory
from ulr.engine.columns import list_array
from ulr.engine.interface import partitions_for
from ulr.features.files import find_features
from ulr.models.tasks import write_scores
from ulr.warehouse.schema import features_schema
from ulr.warehouse.storage import Storage

CORES, ROUNDS, GOAL = 2, 3, 1.5
DOCS, FILE_ROWS, TREES = 20, 500_000, 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--engines", default="local,spark", help="separated by commas")
    parser.add_argument("--no-floor", action="store_true", help="do not hold the rows in memory")
    args = parser.parse_args()
    rows = args.rows // 10 if args.quick else args.rows
    text = train(args.features)
    engines = {name: bench_engine(name) for name in args.engines.split(",")}
    with tempfile.TemporaryDirectory(prefix="ulr-bench-") as folder:
        files = write_features(folder, rows, args.features)
        booster = lgb.Booster(model_str=text)
        matrix = None if args.no_floor else np.concatenate(
            [make(start, min(FILE_ROWS, rows - start), args.features)
             for start in range(0, rows, FILE_ROWS)])  # fmt: skip
        floor, ours, peak = float("inf"), dict.fromkeys(engines, float("inf")), {}
        for _ in range(1 if args.no_floor else ROUNDS):
            if matrix is not None:
                started = time.perf_counter()
                booster.predict(matrix, num_threads=CORES)
                floor = min(floor, time.perf_counter() - started)
            for name, engine in engines.items():
                watch = PeakMemory()
                started = time.perf_counter()
                write_scores(engine, files, text, "bench", url=f"{folder}/scores",
                             partitions=partitions_for(files.size))  # fmt: skip
                ours[name] = min(ours[name], time.perf_counter() - started)
                peak[name] = watch.stop()
                shutil.rmtree(f"{folder}/scores")
    console = Console(highlight=False)
    size = f"{rows:,} rows x {args.features} features, {TREES} trees, {CORES} cores"
    console.print(size)
    for name, best in ours.items():
        speed = f"{rows / best:,.0f} rows/s, peak {peak[name] / 1e9:.1f} GB"
        console.print(f"score on {name}: {best:.2f} s, {speed}")
    if matrix is not None:
        ratio = next(iter(ours.values())) / floor
        console.print(f"LightGBM's predict from memory {floor:.2f} s: ratio {ratio:.2f} "
                      f"(goal: at most {GOAL})")  # fmt: skip


def make(start: int, rows: int, width: int) -> np.ndarray:
    return np.random.default_rng(start).random((rows, width), np.float32)


def train(width: int) -> str:
    x = make(-1 % 2**32, 20_000, width)
    y = x[:, 0] + np.sin(9 * x[:, 1]) * x[:, 2]
    params = {"verbose": -1, "num_leaves": 31, "num_threads": CORES}
    return lgb.train(params, lgb.Dataset(x, y), TREES).model_to_string()


def write_features(folder: str, rows: int, width: int):
    for start in range(0, rows, FILE_ROWS):
        size = min(FILE_ROWS, rows - start)
        number = np.arange(start, start + size)
        columns = [
            pa.array(number // DOCS).cast(pa.string()),
            pa.array(number % DOCS).cast(pa.string()),
            list_array(np.full(size, width), pa.array(make(start, size, width).reshape(-1))),
            pa.nulls(size, pa.int32()),
        ]
        table = pa.table(columns, schema=features_schema)
        Storage(f"{folder}/features").write_table(table, f"part-{start:010d}.parquet")
    return find_features(f"{folder}/features")


if __name__ == "__main__":
    main()
