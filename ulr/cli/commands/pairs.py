"""Build the weighted pairs of a window from its groups, propensities and features.

Features: a row per query_id and doc_id, in an array column `features` or in columns of numbers
(--set features.columns=all, or =[price,stock]), in files (features.path) or in any table that Spark
knows (features.table). Nulls are missing values. The names of columns become the model's. Keys with
other names: --set features.keys='{query_id: q, doc_id: product_id}'. With dates (a column dt, or
folders dt=DATE) the latest row counts, or that of the page's day: --set features.as_of=day. With
--set features.source=log they are those that the log recorded with its pages (docs/features.md).
"""

from __future__ import annotations

import argparse

from ulr.cli.arguments import add_date, add_force
from ulr.cli.engines import open_engine
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_line
from ulr.config.settings import Settings
from ulr.dates import parse_dates
from ulr.pairs.stage import build_pairs
from ulr.pipeline.describe import describe_pairs
from ulr.warehouse.tables import open_warehouse

EXAMPLE = "ulr pairs --date 2026-01-01..2026-01-03"


def configure(parser: argparse.ArgumentParser) -> None:
    add_date(parser, "the window: a date, or a range D1..D2")
    add_force(parser)


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Build the pairs of the configured method."""
    dates, method = parse_dates(args.date), settings.pairs.method
    engine = open_engine("pairs", settings)
    with TERMINAL.tasks(f"pairs {method}"):
        outcome = build_pairs(
            engine,
            open_warehouse(settings.warehouse),
            dates,
            pairs=settings.pairs,
            features=settings.features,
            feedback=settings.log.feedback,
            force=args.force,
        )
    print_line(f"pairs {method}: {describe_pairs(outcome)}")
    return CommandResult(outcome.to_json())
