"""Train several methods on one log and say how much of the naive-to-labels gap each closes."""

from __future__ import annotations

import argparse

from rich.table import Table

from ulr.cli.terminal import Answer, show
from ulr.config.settings import Settings
from ulr.dates import parse_dates
from ulr.errors import UserError
from ulr.evaluation.totals import Estimate, metric_values
from ulr.pipeline.comparison import beside, compare_trials, send
from ulr.pipeline.fit import Trial
from ulr.pipeline.reports import report_comparison
from ulr.report.facts import COMPARE

EXAMPLE = "ulr compare --date 2026-01-01..2026-01-03"

METRIC = "ndcg_at_1"  # the one that decides
ENDS = ("naive", "labels")  # the gap that methods are measured against
SHOWN = {"ndcg_at_1": "NDCG@1", "ndcg_at_3": "@3", "ndcg_at_5": "@5", "ndcg_at_10": "@10",
         "map": "MAP"}  # fmt: skip
Found = dict[str, Estimate]


def configure(parser: argparse.ArgumentParser) -> None:
    """The window."""
    parser.add_argument("--date", required=True, help="a date, or a range D1..D2: the window")


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """A model of every method; the queries that judge them were never trained on."""
    dates = parse_dates(args.date)
    share = {"test_fraction": settings.compare.test_fraction}
    own = settings.model_copy(update={"pairs": settings.pairs.model_copy(update=share)})
    methods = list(dict.fromkeys([*settings.compare.methods, *ENDS]))
    folder = beside(settings, "compare")
    trials = [Trial(method, folder, own.with_method(method)) for method in methods]
    window = f"{dates[0]}..{dates[-1]}"
    compared = compare_trials("compare", trials, window)
    results = {name: metric_values(compared.judged.totals, name) for name in compared.names}
    if METRIC not in results[methods[0]]:
        raise UserError(
            "no document of the test queries has a positive label; `compare` needs golden labels "
            "in the features, `ulr rerun` compares by clicks alone"
        )
    show(result_table(results))
    page = report_comparison(COMPARE, window, compared, settings, METRIC)
    send("compare", compared, page)
    values = {name: {m: found[m].value for m in SHOWN} for name, found in results.items()}
    return Answer({"methods": values})


def result_table(results: dict[str, Found]) -> Table:
    """Methods from best to worst at NDCG@1, with their share of the gap."""
    queries = next(iter(results.values()))["ndcg_at_1"].queries
    table = Table(title=f"golden labels of {queries:,} queries that no model was trained on")
    table.add_column("method")
    for heading in (*SHOWN.values(), "gap closed @1", "@10"):
        table.add_column(heading, justify="right")
    low, high = (results[name] for name in ENDS)
    for method, found in sorted(results.items(), key=lambda m: -m[1]["ndcg_at_1"].value):
        shares = [_share(found[m], low[m], high[m]) for m in ("ndcg_at_1", "ndcg_at_10")]
        table.add_row(method, *(f"{found[m].value:.4f}" for m in SHOWN), *shares)
    return table


def _share(ours: Estimate, low: Estimate, high: Estimate) -> str:
    gap = high.value - low.value
    return f"{(ours.value - low.value) / gap:.0%}" if gap > 0 else "-"
