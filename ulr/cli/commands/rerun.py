"""Train other methods or settings on past dates, from the daily groups, and compare them.

Each --variant is trained in addition to the current settings, with each of the methods. It may
change settings of the sections propensities, pairs, train and lightgbm.
"""

from __future__ import annotations

import argparse
import re

from rich.table import Table

from ulr.cli.arguments import add_force
from ulr.cli.commands.evaluate import SHOWN, query_count
from ulr.cli.engines import open_engine
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_line, print_table
from ulr.config.load import load_settings
from ulr.config.settings import Settings
from ulr.dates import parse_dates
from ulr.errors import UserError
from ulr.evaluation.metrics import LOGGING
from ulr.evaluation.totals import Estimate, metric_values
from ulr.pairs.weights import METHOD_NAMES
from ulr.pipeline.comparison import Comparison, run_comparison
from ulr.pipeline.fit import Trial
from ulr.pipeline.judge import estimates_of
from ulr.pipeline.trials import TrialResults, overlay_of
from ulr.report.facts import RERUN
from ulr.warehouse.overlay import PAIRS, OverlayWarehouse, check_name

EXAMPLE = (
    "ulr rerun --from 2026-01-01 --to 2026-01-03 --methods robust,joint "
    "--variant slow:lightgbm.learning_rate=0.02,train.num_iterations=600"
)
SECTIONS = ("propensities", "pairs", "train", "lightgbm")
FIXED = ("pairs.method", "pairs.test_fraction")  # --methods; the same held-out queries for all
_NEXT_CHANGE = re.compile(r",(?=[a-z_]+\.[\w.]+=)")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="first", required=True, metavar="DATE", help="first date")
    parser.add_argument("--to", dest="last", required=True, metavar="DATE", help="last date")
    parser.add_argument("--methods", help="such as robust,prs,joint (default: the configured one)")
    parser.add_argument(
        "--variant", action="append", default=[], metavar="NAME:KEY=VALUE,...",
        help="other settings under a name, as in deep:lightgbm.num_leaves=127; may be repeated",
    )  # fmt: skip
    parser.add_argument("--name", default="default", help="folder under reruns/ in the warehouse")
    add_force(parser)


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Build what is missing, print the comparison, and log it to MLflow."""
    window = f"{args.first}..{args.last}"
    parse_dates(window)
    title = f"rerun {check_name('--name', args.name)}"
    trials = trials_of(args, settings)
    path = trials[0].warehouse.storage.shown()

    def show(results: TrialResults) -> None:
        print_table(comparison_table(results))
        print_line(f"{title}: {len(trials)} models on {len(results.dates)} days -> {path}")

    comparison = Comparison(RERUN, args.name, title, settings.promote.metric)
    engine = open_engine("rerun", settings)
    results = run_comparison(
        engine, comparison, trials, window, settings, events=TERMINAL, show=show, force=args.force
    )
    return CommandResult({
        "name": args.name, "path": path, "dates": [str(d) for d in results.dates],
        "tables": [table.to_json() for table in results.tables],
        "found": estimates_of(results.evaluation, results.names),
    })  # fmt: skip


def comparison_table(results: TrialResults) -> Table:
    """Return a row per model; in brackets the lead of the first model."""
    totals, first = results.evaluation.totals, results.names[0]
    estimates = metric_values(totals, first)
    metrics = [metric for metric in SHOWN if metric in estimates]
    table = Table(title=f"evaluated on {query_count(estimates):,} queries; (lead of {first}; "
                        "* 95% interval without 0)")  # fmt: skip
    table.add_column("model")
    for metric in metrics:
        table.add_column(metric, justify="right")
    for name in (*results.names, LOGGING):
        values, leads = metric_values(totals, name), metric_values(totals, first, name)
        table.add_row(name, *(_cell(values[m], leads.get(m)) for m in metrics))
    return table


def _cell(estimate: Estimate, lead: Estimate | None) -> str:
    if lead is None:
        return f"{estimate.value:.4f}"
    significant = "*" if lead.lower > 0 or lead.upper < 0 else ""
    return f"{estimate.value:.4f} ({lead.value:+.4f}{significant})"


def trials_of(args: argparse.Namespace, settings: Settings) -> list[Trial]:
    """Return every method with the current settings, then every method of every variant."""
    methods = _methods(args.methods or settings.pairs.method)
    base = overlay_of(settings, args.name)
    trials = [Trial(method, base, settings.with_method(method)) for method in methods]
    for text in args.variant:
        name, changes = _variant(text)
        own = load_settings(args.conf, [*args.set, *changes])
        same_data = (own.pairs, own.propensities) == (settings.pairs, settings.propensities)
        shared = PAIRS if same_data else base.shared
        warehouse = OverlayWarehouse(base, "variants", name, shared=shared)
        trials += [Trial(f"{m}@{name}", warehouse, own.with_method(m)) for m in methods]
    names = [trial.name for trial in trials]
    if len(set(names)) < len(names):
        raise UserError(f"--variant: {max(names, key=names.count)} is given twice; names differ")
    return trials


def _variant(text: str) -> tuple[str, list[str]]:
    """Return the name of a variant and its changes, each as --set takes it."""
    name, colon, rest = text.partition(":")
    changes = _NEXT_CHANGE.split(rest)
    if not colon or not all("=" in change for change in changes):
        raise UserError(
            f"--variant {text}: expected NAME:KEY=VALUE, as in deep:lightgbm.num_leaves=127,"
            "train.num_iterations=200"
        )
    for key in (change.partition("=")[0] for change in changes):
        if key.partition(".")[0] not in SECTIONS or key in FIXED:
            raise UserError(
                f"--variant {text}: {key} is the same for all variants; a variant "
                f"changes {', '.join(f'{s}.*' for s in SECTIONS)}, but not {' or '.join(FIXED)}"
            )
    return check_name("--variant", name), changes


def _methods(text: str) -> list[str]:
    methods = list(dict.fromkeys(m.strip() for m in text.split(",") if m.strip()))
    unknown = [m for m in methods if m not in METHOD_NAMES]
    if unknown or not methods:
        raise UserError(
            f"--methods {text}: {unknown[0] if unknown else 'nothing'} is no method; expected "
            f"some of {', '.join(METHOD_NAMES)}"
        )
    return methods
