"""Make the page of a night or a comparison again, from what was stored of it, and show it.

RUN is a night's date, rerun-NAME or compare-D1..D2; without it, the latest night.
"""

from __future__ import annotations

import argparse
import tempfile
import webbrowser
from pathlib import Path

from ulr.cli.terminal import Answer, say
from ulr.config.settings import Settings
from ulr.report.store import FOLDER, latest_night, load_facts, page_location, write_page
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

EXAMPLE = "ulr report 2026-01-03"


def configure(parser: argparse.ArgumentParser) -> None:
    """Which run, and whether to show it."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="see above")
    parser.add_argument("--open", action="store_true", help="show it in a browser")


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Write the page beside the facts it is made from."""
    storage = Warehouse(settings.warehouse.path).storage
    name = args.run or latest_night(storage)
    content = write_page(storage, load_facts(storage, name))
    place, size = page_location(storage, name), len(content.encode())
    say(f"report {name}: {size / 1000:,.0f} KB -> {place}")
    if args.open and not _shown(storage, name, content):
        say("report: no browser was found here; open the file yourself")
    return Answer({"run": name, "path": place, "bytes": size})


def _shown(storage: Storage, name: str, content: str) -> bool:
    """Open the page; one that lies elsewhere is copied here first."""
    if storage.is_local:
        path = Path(storage.path(FOLDER, f"{name}.html"))
    else:
        path = Path(tempfile.mkdtemp(prefix="ulr-report-")) / f"{name}.html"
        path.write_text(content, encoding="utf-8")
    return webbrowser.open(path.as_uri())
