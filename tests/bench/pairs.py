"""Pairs and evaluation with a features table of what was shown, and with one ten times larger.

    python -m tests.bench.pairs [--queries N] [--features N] [--quick] [--engines local,spark]

The larger table has nine more queries for every shown one: in random order, so that every row group
has to be read ("scattered"), or after the shown ones ("apart"). Goal: at most 1.2 times as long.
Each stage gathers a new window.
"""

from __future__ import annotations

import argparse
import datetime as dt
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from tests.bench.engines import bench_engine
from tests.support.pair_samples import independent_propensities
from tests.support.worlds import click_log, features_table, groups_table, synthetic_corpus
from ulr.config.load import load_settings
from ulr.engine.interface import Engine
from ulr.evaluation.metrics import EvaluationPlan
from ulr.evaluation.stage import evaluate_models
from ulr.features.files import find_features
from ulr.features.stage import WindowInputs, gather_window
from ulr.pairs.config import make_pair_config
from ulr.pairs.tasks import write_pairs
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

CORES, ROUNDS, GOAL = 2, 4, 1.2
DATE = dt.date(2026, 1, 1)
DOCS, SESSIONS, TIMES = 20, 10, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queries", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--quick", action="store_true", help="a tenth of the queries")
    parser.add_argument("--engines", default="local,spark", help="separated by commas")
    args = parser.parse_args()
    queries = args.queries // 10 if args.quick else args.queries
    engines = {name: bench_engine(name) for name in args.engines.split(",")}
    with tempfile.TemporaryDirectory(prefix="ulr-bench-") as folder:
        tables = write_inputs(Path(folder), queries, args.features)
        runs: dict[str, Callable[[], object]] = {}
        for (kind, engine), (name, url) in product(engines.items(), tables.items()):
            for stage in (build_pairs, evaluate):
                runs[f"{kind} {stage.__name__} {name}"] = partial(stage, engine, Path(folder), url)
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(ROUNDS):
            for name, run in runs.items():
                started = time.perf_counter()
                run()
                best[name] = min(best[name], time.perf_counter() - started)
    show(best, queries, args.features, list(engines))


def write_inputs(folder: Path, queries: int, width: int) -> dict[str, str]:
    """Publish groups and write three features tables; return their URLs by name."""
    corpus = synthetic_corpus(1, queries, DOCS, width)
    groups = groups_table(
        corpus, click_log(corpus, queries, 10, SESSIONS, model="independent", seed=1)
    )
    with Warehouse(f"{folder}/warehouse").writing("groups", f"dt={DATE}", "bench") as table:
        table.write_table(groups)
        table.publish({})
    shown = features_table(corpus, queries)
    copies = [shown] + [_renamed(shown, n) for n in range(1, TIMES)]
    large = pa.concat_tables(copies)
    order = np.random.default_rng(0).permutation(large.num_rows)
    tables = {
        "shown": shown,
        "scattered": large.take(pa.array(order)),
        "apart": large,
    }
    for name, table in tables.items():
        Storage(f"{folder}/{name}").write_table(table.combine_chunks(), "part-00000.parquet")
    return {name: f"{folder}/{name}" for name in tables}


def _renamed(table: pa.Table, n: int) -> pa.Table:
    names = pa.compute.binary_join_element_wise(f"unseen {n}", table["query_id"], " ")
    return table.set_column(0, table.schema.field(0), names)


def _window(engine: Engine, folder: Path, features: str):
    inputs = WindowInputs(Warehouse(f"{folder}/warehouse"), [DATE], find_features(features))
    return gather_window(engine, inputs, force=True)


def build_pairs(engine: Engine, folder: Path, features: str) -> None:
    config = make_pair_config("joint", _propensities(), co_click_variance=0.0)
    write_pairs(engine, _window(engine, folder, features), config,
                pairs_url=f"{folder}/pairs", test_fraction=0.1)  # fmt: skip
    shutil.rmtree(folder / "pairs")


def evaluate(engine: Engine, folder: Path, features: str) -> None:
    plan = EvaluationPlan(load_settings(None).evaluate, _propensities())
    window = _window(engine, folder, features)
    evaluate_models(engine, window, {}, plan, split="test", test_fraction=0.1)


def _propensities():
    return independent_propensities(1 / np.arange(1.0, 11.0))


def show(best: dict[str, float], queries: int, width: int, engines: list[str]) -> None:
    rows = queries * DOCS
    table = Table(title=f"{queries:,} shown queries, {rows:,} rows x {width} features, and "
                        f"{TIMES} times as many rows; {CORES} cores, best of {ROUNDS}")  # fmt: skip
    for heading in ("engine", "stage", "shown s", "scattered s", "ratio", "apart s", "ratio"):
        table.add_column(heading, justify="left" if heading in ("engine", "stage") else "right")
    for kind, stage in product(engines, ("build_pairs", "evaluate")):
        plain = best[f"{kind} {stage} shown"]
        cells = [f"{plain:.2f}"]
        for name in ("scattered", "apart"):
            own = best[f"{kind} {stage} {name}"]
            cells += [f"{own:.2f}", f"{own / plain:.2f}"]
        table.add_row(kind, stage, *cells)
    console = Console(highlight=False)
    console.print(table)
    console.print(f"goal: at most {GOAL} times")


if __name__ == "__main__":
    main()
