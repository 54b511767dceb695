"""List the published tables, print views of them for other engines, or remove old dates.

The folder of a partition also holds replaced versions for warehouse.keep_days, so a glob over
Parquet files reads rows twice. --views prints SQL that names the published files. It describes the
tables of this moment: run it again after every night, or set warehouse.views.

Dated partitions, summaries of nights and their pages are kept for warehouse.retention_days, and the
quarantine, which holds raw rows of the log, for warehouse.quarantine_days. Both count back from
--date. `ulr nightly` removes expired partitions at its end.
"""

from __future__ import annotations

import argparse
from typing import Any

import pyarrow as pa
from rich.table import Table

from ulr.cli.arguments import add_date
from ulr.cli.terminal import CommandResult, print_line, print_table
from ulr.config.settings import Settings
from ulr.dates import parse_dates
from ulr.errors import UserError
from ulr.pipeline.describe import describe_expired
from ulr.redact import redact_text
from ulr.report.nights.store import write_index
from ulr.warehouse.catalog import PublishedTable, published_tables
from ulr.warehouse.retention import (
    Expired,
    check_retention,
    find_expired,
    newest_date,
    remove_expired,
    remove_replaced,
)
from ulr.warehouse.storage import write_file
from ulr.warehouse.tables import Warehouse, open_warehouse
from ulr.warehouse.views import ENGINES, Engine, views

EXAMPLE = "ulr tables --views duckdb --out views.sql"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--views", choices=ENGINES, help="print SQL views of the published files")
    parser.add_argument("--out", metavar="FILE", help="with --views: write them to a path or URL")
    parser.add_argument(
        "--expire", action="store_true", help="remove what is older than its retention"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="with --expire: list it and remove nothing"
    )
    add_date(parser, "count back from this date (default: newest date of groups)", required=False)


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """List tables, print views, or remove expired partitions."""
    if args.out and not args.views:
        raise UserError("--out goes with --views; give an engine too")
    if (args.dry_run or args.date) and not args.expire:
        raise UserError("--dry-run and --date go with --expire; give it too")
    if args.expire and args.views:
        raise UserError("--views and --expire are different tasks; give one of them")
    warehouse = open_warehouse(settings.warehouse)
    if args.views:
        return _views(warehouse, args.views, args.out)
    if args.expire:
        return _expire(warehouse, settings, args)
    rows = [_row(table) for table in published_tables(warehouse.storage)]
    print_table(_table(rows))
    return CommandResult({"tables": rows})


def _views(warehouse: Warehouse, engine: Engine, out: str | None) -> CommandResult:
    sql = views(warehouse.storage, engine)
    if out:
        write_file(out, sql)
        print_line(f"tables: views for {engine} -> {redact_text(out)}")
    else:
        print_line(sql.rstrip("\n"))
    return CommandResult({"engine": engine, "sql": sql})


def _expire(warehouse: Warehouse, settings: Settings, args: argparse.Namespace) -> CommandResult:
    check_retention(settings.warehouse, settings.propensities.window_days)
    today = parse_dates(args.date)[-1] if args.date else newest_date(warehouse)
    expired = find_expired(warehouse, settings.warehouse, today) if today else []
    if not args.dry_run:
        remove_expired(warehouse, expired)
        remove_replaced(warehouse)
        write_index(warehouse.storage)  # without the nights that were removed
    print_line(f"tables: {describe_expired(expired, dry_run=args.dry_run)}")
    return CommandResult(
        {"expired": [_document(one) for one in expired], "removed": not args.dry_run}
    )


def _document(one: Expired) -> dict[str, Any]:
    return {"table": one.table, "date": str(one.date), "paths": list(one.paths), "bytes": one.size}


def _row(table: PublishedTable) -> dict[str, Any]:
    """Return the numbers of a table; rows is None for models, and if a file is not readable."""
    damaged = table.damaged
    try:
        rows = table.rows()
    except (OSError, pa.ArrowInvalid):
        rows, damaged = None, damaged + 1
    return {"table": table.name, "partitions": list(table.partitions), "rows": rows,
            "files": table.files, "bytes": table.bytes, "damaged": damaged}  # fmt: skip


def _table(rows: list[dict[str, Any]]) -> Table:
    table = Table("table", "partitions", "first", "last")
    for heading in ("rows", "files", "MB", "damaged"):
        table.add_column(heading, justify="right")
    for row in rows:
        names = row["partitions"]
        number = "-" if row["rows"] is None else f"{row['rows']:,}"
        table.add_row(row["table"], str(len(names)), names[0], names[-1], number,
                      f"{row['files']:,}", f"{row['bytes'] / 1e6:,.1f}",
                      str(row["damaged"] or ""))  # fmt: skip
    return table
