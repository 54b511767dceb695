"""Read the click log of a date and publish its groups and quarantine.

The log is one of three settings. The last one that is set replaces the others:
  log.path   files: Parquet, JSON lines or CSV (log.format); dt=DATE folders are found
  log.table  a table or view that Spark knows: Hive, Delta, Iceberg, Unity, Glue
  log.sql    a query that joins log.views (tables or files) into pages

log.columns gives other names, or SQL expressions, for the columns of the contract:
  --set log.table=shop.search.events --set "log.where=dt = '{date}'"
  --set log.columns.session_id=query_uuid
  --set "log.columns.shown_at=timestamp_millis(ts)"
  --set "log.columns.doc_ids=transform(items, i -> i.id)"
  --set "log.columns.clicks=transform(items, i -> i.clicks > 0)"

--conf ubi reads User Behavior Insights of OpenSearch, Elasticsearch or Solr:
  --set log.views.ubi_queries.path=FOLDER --set log.views.ubi_events.path=FOLDER

With log.feedback, as {click: 1, purchase: 10}, the log's column feedback has the events of each
document: names, lists of names, or levels counted from 1 (for UBI: --conf ubi --conf ubi-feedback).
With log.features, as [price, stock], the log's column features has a vector of numbers for each
document (docs/features.md).

`ulr doctor --date DATE` shows which columns were found, and the first mistake.
"""

from __future__ import annotations

import argparse

from ulr.cli.arguments import RANGE, add_date, add_force
from ulr.cli.engines import open_engine
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_line
from ulr.config.settings import Settings
from ulr.dates import parse_dates
from ulr.groups.stage import build_groups
from ulr.pipeline.describe import describe_groups
from ulr.warehouse.tables import open_warehouse

EXAMPLE = "ulr groups --date 2026-01-01..2026-01-03"


def configure(parser: argparse.ArgumentParser) -> None:
    add_date(parser, RANGE)
    add_force(parser)


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Build every date in turn."""
    dates, outcomes = parse_dates(args.date), []
    warehouse = open_warehouse(settings.warehouse)
    engine = open_engine("groups", settings)
    with TERMINAL.steps("groups", len(dates), "dates") as step:
        for date in dates:
            with step(f"groups {date}"):
                outcome = build_groups(
                    engine,
                    warehouse,
                    date,
                    log=settings.log,
                    groups=settings.groups,
                    force=args.force,
                )
            print_line(f"groups {date}: {describe_groups(outcome)}")
            outcomes.append(outcome.to_json())
    return CommandResult({"dates": outcomes})
