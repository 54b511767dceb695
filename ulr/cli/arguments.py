"""Options that several commands share, and checks of output files."""

from __future__ import annotations

import argparse
from pathlib import Path

from ulr.errors import UserError

WINDOW = "last date of the window, or the whole window as D1..D2"
RANGE = "a date, or a range D1..D2"


def add_date(parser: argparse.ArgumentParser, text: str, *, required: bool = True) -> None:
    """Add --date."""
    parser.add_argument("--date", required=required, help=text)


def add_force(parser: argparse.ArgumentParser) -> None:
    """Add --force."""
    parser.add_argument(
        "--force", action="store_true", help="rebuild even if the inputs are unchanged"
    )


def no_options(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the command has only the options that every command has."""


def check_target(flag: str, path: str | None, suffix: str = "") -> None:
    """Raise unless the file can be written: existing folder, and the suffix of its format."""
    if path is None:
        return
    target = Path(path)
    if not target.parent.is_dir():
        raise UserError(f"{flag} {path}: there is no folder {target.parent}; create it first")
    if target.is_dir():
        raise UserError(f"{flag} {path}: this is a folder; give a file")
    if suffix and target.suffix.lower() != suffix:
        kind = suffix.removeprefix(".").upper()
        raise UserError(f"{flag} {path}: the file is written as {kind}; end its name in {suffix}")
