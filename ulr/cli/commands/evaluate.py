"""Evaluate models on golden labels and held-out clicks, against the ranking that was shown."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.table import Table

from ulr.cli.arguments import WINDOW, add_date, add_force
from ulr.cli.engines import open_engine
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_line, print_table
from ulr.config.settings import Settings
from ulr.evaluation.metrics import LOGGING
from ulr.evaluation.stage import EvaluationOutcome
from ulr.evaluation.totals import Estimate, metric_values
from ulr.pipeline.judge import estimates_of, evaluate_window, load_model_text
from ulr.warehouse.tables import open_warehouse

EXAMPLE = "ulr evaluate --date 2026-01-01..2026-01-03 --model auto"

# What the intervals contain besides the queries, by whether the propensities have errors.
PROPENSITY_ERRORS = {
    True: "the error of the propensities",
    False: "propensities taken as exact",  # given, or from a file or an earlier version
}
SHOWN = (
    "ndcg_at_1",
    "ndcg_at_10",
    "map",
    "snips_dcg",
    "snips_mean_relevant_rank",
    "ips_dcg",
    "pair_loss",
)


def configure(parser: argparse.ArgumentParser) -> None:
    add_date(parser, WINDOW)
    parser.add_argument(
        "--model", action="append", metavar="NAME",
        help="a trained method, a registry URI or a LightGBM text file; may be repeated: the first "
             "is compared with the others (default: the configured method)",
    )  # fmt: skip
    add_force(parser)


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Evaluate, publish `metrics`, and print the table."""
    warehouse = open_warehouse(settings.warehouse)
    names = list(dict.fromkeys(args.model or [settings.pairs.method]))
    engine = open_engine("evaluate", settings)
    with TERMINAL.tasks("evaluate"):
        models = {name: load_model_text(warehouse, name, settings, TERMINAL.warning)
                  for name in names}  # fmt: skip
        outcome = evaluate_window(engine, warehouse, args.date, models, settings, force=args.force)
    if outcome.skipped:
        print_line("evaluate: unchanged, skipped")
    print_table(result_table(outcome, names))
    return CommandResult(outcome.to_json() | {"found": estimates_of(outcome, names)})


def result_table(outcome: EvaluationOutcome, names: Sequence[str]) -> Table:
    """Return a row per metric: each ranking with half its 95% interval, then the differences."""
    rankings = {name: metric_values(outcome.totals, name) for name in (*names, LOGGING)}
    leads = {rival: metric_values(outcome.totals, names[0], rival) for rival in rankings}
    first = rankings[names[0]]
    contain = PROPENSITY_ERRORS[outcome.totals.has_propensity_errors]
    queries = f"evaluated on {query_count(first):,} queries"
    table = Table(title=f"{queries}; 95% intervals, clustered by query, with {contain}")
    headings = [*rankings, *(f"{names[0]} - {rival}" for rival in leads if rival != names[0])]
    for heading in ("", *headings):
        table.add_column(heading, no_wrap=True, justify="right" if heading else "left")
    for metric in (m for m in SHOWN if m in first):
        cells = [_value(estimates[metric]) for estimates in rankings.values()]
        cells += [_lead(estimates[metric]) for estimates in leads.values() if metric in estimates]
        table.add_row(metric, *cells)
    return table


def query_count(estimates: dict[str, Estimate]) -> int:
    """Return the largest number of queries behind an estimate."""
    return max((estimate.queries for estimate in estimates.values()), default=0)


def _value(estimate: Estimate) -> str:
    return f"{estimate.value:.4f} ±{estimate.value - estimate.lower:.4f}"


def _lead(estimate: Estimate) -> str:
    return f"{estimate.value:+.4f} p={estimate.p_value:.2g}"
