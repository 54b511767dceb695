"""Read the click log of a date and publish its groups and quarantine.

With log.feedback, as {click: 1, purchase: 10}, the log's column feedback has the events of each
document: names, lists of names, or levels counted from 1. With log.features, as [price, stock], the
log's column features has a vector of numbers for each document (docs/features.md).
"""

from __future__ import annotations

import argparse
from functools import partial

from ulr.cli.arguments import RANGE, add_date, add_force
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_line
from ulr.config.settings import Settings
from ulr.dates import parse_dates
from ulr.engine.session import start_session
from ulr.groups.stage import build_groups
from ulr.pipeline.describe import describe_groups
from ulr.warehouse.tables import open_warehouse

EXAMPLE = "ulr groups --date 2026-01-01..2026-01-03"


def configure(parser: argparse.ArgumentParser) -> None:
    add_date(parser, RANGE)
    add_force(parser)


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Build every date in turn."""
    warehouse = open_warehouse(settings.warehouse)
    start = partial(start_session, "groups", settings.spark)
    dates, outcomes = parse_dates(args.date), []
    with TERMINAL.steps("groups", len(dates), "dates") as step:
        for date in dates:
            with step(f"groups {date}"):
                outcome = build_groups(
                    start,
                    warehouse,
                    date,
                    log=settings.log,
                    groups=settings.groups,
                    force=args.force,
                )
            print_line(f"groups {date}: {describe_groups(outcome)}")
            outcomes.append(outcome.to_json())
    return CommandResult({"dates": outcomes})
