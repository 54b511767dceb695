"""Train several methods on one log and print how much of the naive-to-labels gap each closes."""

from __future__ import annotations

import argparse

from rich.table import Table

from ulr.cli.arguments import add_date
from ulr.cli.engines import open_engine
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_table
from ulr.config.settings import Settings
from ulr.dates import parse_dates
from ulr.errors import UserError
from ulr.evaluation.totals import Estimate, metric_values
from ulr.pipeline.comparison import Comparison, run_comparison
from ulr.pipeline.fit import Trial
from ulr.pipeline.trials import TrialResults, overlay_of
from ulr.report.facts import COMPARE

EXAMPLE = "ulr compare --date 2026-01-01..2026-01-03"

METRIC = "ndcg_at_1"  # the metric that decides
ENDS = ("naive", "labels")  # lower and upper end of the gap
SHOWN = {"ndcg_at_1": "NDCG@1", "ndcg_at_3": "@3", "ndcg_at_5": "@5", "ndcg_at_10": "@10",
         "map": "MAP"}  # fmt: skip
Estimates = dict[str, Estimate]


def configure(parser: argparse.ArgumentParser) -> None:
    add_date(parser, "the window: a date, or a range D1..D2")


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Train a model per method and evaluate all of them on the same held-out queries."""
    dates = parse_dates(args.date)
    window = f"{dates[0]}..{dates[-1]}"
    held_out = {"test_fraction": settings.compare.test_fraction}
    own = settings.model_copy(update={"pairs": settings.pairs.model_copy(update=held_out)})
    methods = list(dict.fromkeys([*settings.compare.methods, *ENDS]))
    overlay = overlay_of(settings, "compare")
    trials = [Trial(method, overlay, own.with_method(method)) for method in methods]
    comparison = Comparison(COMPARE, window, "compare", METRIC)
    engine = open_engine("compare", settings)
    results = run_comparison(
        engine, comparison, trials, window, settings, events=TERMINAL, show=_show
    )
    values = {name: {m: estimates[m].value for m in SHOWN}
              for name, estimates in _by_method(results).items()}  # fmt: skip
    return CommandResult({"methods": values})


def _show(results: TrialResults) -> None:
    by_method = _by_method(results)
    if METRIC not in by_method[results.names[0]]:
        raise UserError(
            "no document of the held-out queries has a positive label; `compare` needs golden "
            "labels in the features, `ulr rerun` compares on clicks alone"
        )
    print_table(result_table(by_method))


def _by_method(results: TrialResults) -> dict[str, Estimates]:
    return {name: metric_values(results.evaluation.totals, name) for name in results.names}


def result_table(results: dict[str, Estimates]) -> Table:
    """Return the methods from best to worst at NDCG@1, with the fraction of the gap they close."""
    queries = next(iter(results.values()))[METRIC].queries
    table = Table(title=f"golden labels of {queries:,} held-out queries")
    table.add_column("method")
    for heading in (*SHOWN.values(), "gap closed @1", "@10"):
        table.add_column(heading, justify="right")
    low, high = (results[name] for name in ENDS)
    for method, estimates in sorted(results.items(), key=lambda m: -m[1][METRIC].value):
        gaps = [_gap_closed(estimates[m], low[m], high[m]) for m in ("ndcg_at_1", "ndcg_at_10")]
        table.add_row(method, *(f"{estimates[m].value:.4f}" for m in SHOWN), *gaps)
    return table


def _gap_closed(estimate: Estimate, low: Estimate, high: Estimate) -> str:
    gap = high.value - low.value
    return f"{(estimate.value - low.value) / gap:.0%}" if gap > 0 else "-"
