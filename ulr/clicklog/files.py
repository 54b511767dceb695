"""Which files of a click log belong to a date."""

from __future__ import annotations

import datetime as dt
import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa

from ulr.errors import UserError
from ulr.warehouse.schema import OPTIONAL_COLUMNS
from ulr.warehouse.storage import Storage, StoredFile

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"  # Hive's and Spark's folder name for null


@dataclass(frozen=True)
class LogFiles:
    """A date's files. `filtered`: they hold other dates too, so rows are chosen by shown_at."""

    date: dt.date
    storage: Storage
    files: list[StoredFile]
    filtered: bool

    @property
    def day(self) -> dt.date | None:
        """The date that rows are chosen by, where the files hold others too."""
        return self.date if self.filtered else None

    @property
    def paths(self) -> list[str]:
        """The files as their filesystem names them."""
        return [self.storage.path(f.path) for f in self.files]

    @property
    def identity(self) -> list[list[object]]:
        """What must stay the same for the date's groups to stay the same."""
        return [[f.path, f.size, f.mtime_ns] for f in self.files]


def find_log(path: str, date: dt.date) -> LogFiles:
    """Files for a date: `{date}` in the path, or a dt=DATE folder, or all of them, filtered.

    The path may name one file, or hold wildcards.
    """
    dated = path.replace("{date}", date.isoformat())
    filtered = dated == path
    storage, pattern = _folder_and_pattern(dated)
    day_folder = f"dt={date}"
    if pattern is None and storage.exists(day_folder):
        files, filtered = storage.files(day_folder), False
    else:
        files = storage.files()
        if pattern is not None:
            files = [f for f in files if fnmatch.fnmatch(f.path, pattern)]
        elif any(f.path.startswith("dt=") for f in files):
            days = sorted({f.path.split("/")[0] for f in files if f.path.startswith("dt=")})
            raise UserError(
                f"the log {path!r} has no folder dt={date}; it has {days[0]} to {days[-1]}"
            )
    if not files:
        raise UserError(f"no log files at {dated!r}; check log.path and --date")
    return LogFiles(date, storage, files, filtered)


def folder_columns(path: str, schema: pa.Schema) -> dict[str, str | None]:
    """Columns that folders keep for the files in them, as in `segment=mobile/part-0.parquet`."""
    named = (folder.partition("=") for folder in path.split("/")[:-1])
    return {
        name: None if value == NO_VALUE else unquote(value)
        for name, equals, value in named
        if equals and name in schema.names
    }


def check_columns(found: Iterable[str], schema: pa.Schema, path: str) -> None:
    """Refuse a file that lacks what every row must have."""
    there = list(found)
    missing = [n for n in schema.names if n not in there and n not in OPTIONAL_COLUMNS]
    if missing:
        other = "document set log.layout=impression"
        if "doc_id" in schema.names:
            other = "page set log.layout=page"
        raise UserError(
            f"{path} has no column {', '.join(missing)}; it has {', '.join(there) or 'none'}. "
            f"For one row per {other}"
        )


def _folder_and_pattern(path: str) -> tuple[Storage, str | None]:
    """A folder is taken whole; a file, or what follows the first wildcard, is a pattern below."""
    base, question, query = path.partition("?") if "://" in path else (path, "", "")
    parts = base.rstrip("/").split("/")
    wild = [n for n, part in enumerate(parts) if any(c in part for c in "*[")]
    if not wild and not Storage(path).is_file():
        return Storage(path), None
    at = wild[0] if wild else len(parts) - 1
    folder = "/".join(parts[:at]) or ("/" if base.startswith("/") else ".")
    return Storage(folder + question + query), "/".join(parts[at:])
