"""List the tables of the warehouse, or remove what is older than its retention.

Dated partitions, summaries of nights and their pages are kept for warehouse.retention_days, and the
quarantine, which holds raw rows of the log, for warehouse.quarantine_days. Both count back from
--date. `ulr nightly` removes expired partitions at its end.
"""

from __future__ import annotations

import argparse
from typing import Any

from rich.table import Table

from ulr.cli.arguments import add_date
from ulr.cli.terminal import CommandResult, print_line, print_table
from ulr.config.settings import Settings
from ulr.dates import parse_dates
from ulr.errors import UserError
from ulr.pipeline.describe import describe_expired
from ulr.warehouse.retention import (
    Expired,
    check_retention,
    find_expired,
    newest_date,
    remove_expired,
    remove_replaced,
)
from ulr.warehouse.tables import Warehouse, open_warehouse
from ulr.warehouse.verify import published

EXAMPLE = "ulr tables --expire --dry-run"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--expire", action="store_true", help="remove what is older than its retention"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="with --expire: list it and remove nothing"
    )
    add_date(parser, "count back from this date (default: newest date of groups)", required=False)


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """List tables, or expired partitions."""
    warehouse = open_warehouse(settings.warehouse)
    if not args.expire:
        if args.dry_run or args.date:
            raise UserError("--dry-run and --date go with --expire; give it too")
        rows = _rows(warehouse)
        print_table(_table(rows))
        return CommandResult({"tables": rows})
    check_retention(settings.warehouse, settings.propensities.window_days)
    today = parse_dates(args.date)[-1] if args.date else newest_date(warehouse)
    expired = find_expired(warehouse, settings.warehouse, today) if today else []
    if not args.dry_run:
        remove_expired(warehouse, expired)
        remove_replaced(warehouse)
    print_line(f"tables: {describe_expired(expired, dry_run=args.dry_run)}")
    return CommandResult(
        {"expired": [_document(one) for one in expired], "removed": not args.dry_run}
    )


def _document(one: Expired) -> dict[str, Any]:
    return {"table": one.table, "date": str(one.date), "paths": list(one.paths), "bytes": one.size}


def _rows(warehouse: Warehouse) -> list[dict[str, Any]]:
    """Return a row per published table, sorted by name."""
    rows: dict[str, dict[str, Any]] = {}
    for where, manifest in published(warehouse.storage):
        name, _, partition = where.rpartition("/")
        table = name if "=" in partition else where
        empty = {"table": table, "partitions": [], "files": 0, "bytes": 0, "damaged": 0}
        row = rows.setdefault(table, empty)
        row["partitions"].append(partition if "=" in partition else "")
        row["files"] += len(manifest.files) if manifest else 0
        row["bytes"] += sum(file.size or 0 for file in manifest.files) if manifest else 0
        row["damaged"] += manifest is None
    return [rows[name] for name in sorted(rows)]


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table("table", "partitions", "first", "last", "files", "MB")
    for row in rows:
        names = sorted(row["partitions"])
        table.add_row(row["table"], str(len(names)), names[0], names[-1], f"{row['files']:,}",
                      f"{row['bytes'] / 1e6:,.1f}")  # fmt: skip
    return table
