"""Render the page of a night or a comparison from the stored facts, and open it.

RUN is the date of a night, rerun-NAME, compare-D1..D2, or index for the page over all nights; by
default the latest night. The page over all nights is written in every case.
"""

from __future__ import annotations

import argparse
import tempfile
import webbrowser
from pathlib import Path

from ulr.cli.terminal import CommandResult, print_line
from ulr.config.settings import Settings
from ulr.report.nights.store import write_index
from ulr.report.store import FOLDER, INDEX, latest_night, load_facts, page_location, write_page
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import open_warehouse

EXAMPLE = "ulr report 2026-01-03"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help="see above")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Write the page next to its facts, and the page over all nights."""
    storage = open_warehouse(settings.warehouse).storage
    index = write_index(storage)
    name = args.run or latest_night(storage)
    if name == INDEX and index is not None:
        content = index
    else:
        content = write_page(storage, load_facts(storage, name))
    path, size = page_location(storage, name), len(content.encode())
    print_line(f"report {name}: {size / 1000:,.0f} KB -> {path}")
    if index is not None and name != INDEX:
        print_line(f"nights -> {page_location(storage, INDEX)}")
    if args.open and not _open(storage, name, content):
        print_line("report: no browser found; open the file by hand")
    return CommandResult({
        "run": name, "path": path, "bytes": size,
        "index": page_location(storage, INDEX) if index is not None else None,
    })  # fmt: skip


def _open(storage: Storage, name: str, content: str) -> bool:
    """Open the page in a browser; copy it to a local file first if it is in an object store."""
    if storage.is_local:
        path = Path(storage.path(FOLDER, f"{name}.html"))
    else:
        path = Path(tempfile.mkdtemp(prefix="ulr-report-")) / f"{name}.html"
        path.write_text(content, encoding="utf-8")
    return webbrowser.open(path.as_uri())
