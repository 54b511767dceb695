"""Train several methods on one log and say how much of the naive-to-labels gap each closes."""

from __future__ import annotations

import argparse
from functools import partial

from rich.table import Table

from ulr.commands.train import plan_of, train_watched
from ulr.dates import parse_dates
from ulr.errors import UserError
from ulr.holdout import queries_aside
from ulr.pairing import build_pairs, partition_name
from ulr.progress import watched
from ulr.session import start_session
from ulr.settings import Settings
from ulr.terminal import Answer, show
from ulr.training.dataset import RankingData, split_queries
from ulr.training.from_tables import golden_metrics, load_pairs
from ulr.warehouse import Warehouse

EXAMPLE = "ulr compare --date 2026-01-01..2026-01-03"

ENDS = ("naive", "labels")  # the gap that methods are measured against
SHOWN = {"ndcg_at_1": "NDCG@1", "ndcg_at_3": "@3", "ndcg_at_5": "@5", "ndcg_at_10": "@10",
         "map": "MAP"}  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    """The window."""
    parser.add_argument("--date", required=True, help="a date, or a range D1..D2: the window")


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Pairs and a model for every method; queries scored are never trained on."""
    warehouse = Warehouse(settings.warehouse.path)
    methods = list(dict.fromkeys([*settings.compare.methods, *ENDS]))
    for method in methods:
        _pairs(warehouse, args.date, settings, method)
    judged = _test_part(_load(warehouse, "labels"), settings, inside=True)
    if (judged.labels <= 0).all():
        raise UserError("no document of the test queries has a positive label; nothing to compare")
    results = {}
    for method in methods:
        data = _test_part(_load(warehouse, method), settings, inside=False)
        ranker = train_watched(data, plan_of(settings, method))
        results[method] = golden_metrics(ranker, judged)
    show(result_table(results))
    return Answer({"methods": results})


def result_table(results: dict[str, dict[str, float]]) -> Table:
    """Methods from best to worst at NDCG@1, with their share of the gap."""
    count = int(next(iter(results.values()))["queries"])
    table = Table(title=f"golden labels of {count:,} queries that no model was trained on")
    table.add_column("method")
    for heading in (*SHOWN.values(), "gap closed @1", "@10"):
        table.add_column(heading, justify="right")
    low, high = (results[name] for name in ENDS)
    for method, found in sorted(results.items(), key=lambda m: -m[1]["ndcg_at_1"]):
        shares = [_share(found[m], low[m], high[m]) for m in ("ndcg_at_1", "ndcg_at_10")]
        table.add_row(method, *(f"{found[m]:.4f}" for m in SHOWN), *shares)
    return table


def _share(value: float, low: float, high: float) -> str:
    return f"{(value - low) / (high - low):.0%}" if high > low else "-"


def _pairs(warehouse: Warehouse, date: str, settings: Settings, method: str) -> None:
    with watched(f"pairs {method}"):
        build_pairs(
            partial(start_session, "compare", settings.spark),
            warehouse,
            parse_dates(date),
            pairs=settings.pairs.model_copy(update={"method": method} | _kept_whole(method)),
            features=settings.features.path,
        )


def _kept_whole(method: str) -> dict[str, float]:
    """The labels table also judges: it keeps the queries that the others leave out."""
    return {"test_share": 0.0} if method == "labels" else {}


def _load(warehouse: Warehouse, method: str) -> RankingData:
    return load_pairs(warehouse.storage.url, warehouse.files("pairs", partition_name(method)))


def _test_part(data: RankingData, settings: Settings, *, inside: bool) -> RankingData:
    aside = queries_aside(data.query_ids, settings.compare.test_share, "test")
    return split_queries(data, aside if inside else ~aside)
