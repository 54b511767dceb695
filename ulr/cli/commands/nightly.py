"""Run one night or several: groups, propensities, pairs, training, evaluation, promotion."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.table import Table

from ulr.cli.arguments import add_date, add_force
from ulr.cli.engines import open_engine
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_table
from ulr.config.settings import Settings
from ulr.dates import parse_dates
from ulr.pipeline.nights import run_nights
from ulr.pipeline.stage_runner import Summary

EXAMPLE = "ulr nightly --date 2026-01-03 --from-stage pairs"
GOLDEN = {"ndcg_at_1": "NDCG@1", "ndcg_at_10": "@10"}


def configure(parser: argparse.ArgumentParser) -> None:
    add_date(parser, "the date whose log is complete, or D1..D2 for one night per date")
    parser.add_argument("--from-stage", metavar="STAGE", help="leave out the stages before this")
    add_force(parser)


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Run the nights and print their summaries."""
    dates = parse_dates(args.date)
    engine = open_engine("nightly", settings)
    summaries = run_nights(
        engine, settings, dates, TERMINAL, from_stage=args.from_stage, force=args.force
    )
    last = summaries[-1]
    if len(dates) == 1 or last.error:
        print_table(summary_table(last))
    if len(dates) > 1:
        print_table(nights_table(summaries, settings.promote.metric))
    documents = [summary.to_json() for summary in summaries]
    document = documents[0] if len(dates) == 1 else {"nights": documents}
    return CommandResult(document, last.error)


def summary_table(summary: Summary) -> Table:
    """Return a row per stage."""
    table = Table("stage", "status", title=f"night of {summary.date}")
    table.add_column("seconds", justify="right")
    table.add_column("")
    for record in summary.stages:
        table.add_row(record.stage, record.status, f"{record.seconds:.1f}", record.message)
    return table


def nights_table(summaries: Sequence[Summary], metric: str) -> Table:
    """Return a row per night: every model on golden labels, or on `metric` if there are none.

    The last two columns are about the champion after the night.
    """
    evaluated = [s.details("evaluate").get("metrics", {}) for s in summaries]
    names = list(next((m for m in reversed(evaluated) if m), {}))
    golden = any(set(GOLDEN) <= set(values) for m in evaluated for values in m.values())
    shown = GOLDEN if golden else {metric: metric}
    headings = [f"{name} {heading}" for name in names for heading in shown.values()]
    table = Table(title="nights, evaluated on held-out queries")
    for heading in ("night", "pages", *headings, "verdict", "champion", list(shown.values())[-1]):
        table.add_column(heading, justify="left" if heading in ("night", "verdict") else "right")
    for summary, metrics in zip(summaries, evaluated, strict=True):
        pages = summary.details("evaluate").get("pages", 0)
        cells = [_number(metrics.get(name, {}).get(metric)) for name in names for metric in shown]
        table.add_row(summary.date, f"{pages:,}", *cells, summary.outcome,
                      *_champion(summary, list(shown)[-1]))  # fmt: skip
    return table


def _champion(summary: Summary, metric: str) -> tuple[str, str]:
    """Return the version of the champion after the night, and its value on the night's queries."""
    decision, evaluation = summary.details("promote"), summary.details("evaluate")
    if summary.outcome == "kept":
        version, values = decision["champion"], decision["champion_metrics"]
    else:
        version = decision.get("version")
        values = next(iter(evaluation.get("metrics", {}).values()), {})
    return "-" if version is None else str(version), _number(values.get(metric))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
