"""The files of a click log that belong to a date."""

from __future__ import annotations

import datetime as dt
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote

import pyarrow as pa

from ulr.clicklog.damaged import printable
from ulr.errors import UserError
from ulr.warehouse.schema import FEEDBACK, OPTIONAL_COLUMNS
from ulr.warehouse.storage import Storage, StoredFile

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"  # Hive's and Spark's folder name for null


@dataclass(frozen=True)
class LogFiles:
    """The files of a date; `filtered` if they hold other dates too, so rows need a filter."""

    date: dt.date
    storage: Storage
    files: list[StoredFile]
    filtered: bool

    @property
    def day(self) -> dt.date | None:
        """The date to filter rows by; None if the files hold one date only."""
        return self.date if self.filtered else None

    @property
    def paths(self) -> list[str]:
        return [self.storage.path(f.path) for f in self.files]

    @property
    def identity(self) -> list[list[object]]:
        """Path, size and time of each file: the log's part of a fingerprint."""
        return [[f.path, f.size, f.mtime_ns] for f in self.files]

    def difference(self, files: Sequence[StoredFile]) -> str:
        """Return which file of another listing was added, removed or replaced; "" if none."""
        before, after = ({f.path: f for f in listing} for listing in (self.files, files))
        for path in sorted(before.keys() | after.keys()):
            if before.get(path) != after.get(path):
                what = "replaced"
                if path not in after:
                    what = "removed"
                elif path not in before:
                    what = "added"
                return f"{self.storage.shown(path)} was {what}"
        return ""


def find_log(path: str, date: dt.date) -> LogFiles:
    """Return the files of a date: `{date}` in the path, a dt=DATE folder, or all files, filtered.

    path: a folder, a file, or a pattern with wildcards. Raises UserError if there are no files.
    """
    dated = path.replace("{date}", date.isoformat())
    log = _listed(path, date)
    if not log.files:
        raise UserError(f"no log files at {dated!r}; check log.path and --date")
    return log


def list_log(path: str, date: dt.date) -> list[StoredFile]:
    """Return the files of a date as `find_log` does, or none."""
    try:
        return _listed(path, date).files
    except UserError:
        return []


def _listed(path: str, date: dt.date) -> LogFiles:
    dated = path.replace("{date}", date.isoformat())
    storage, pattern = _folder_and_pattern(dated)
    if pattern is None and storage.exists(f"dt={date}"):
        files, filtered = storage.files(f"dt={date}"), False
    else:
        files, filtered = storage.files(), dated == path
        days = sorted({f.path.split("/")[0] for f in files if f.path.startswith("dt=")})
        if pattern is not None:
            files = [f for f in files if fnmatch.fnmatch(f.path, pattern)]
        elif days:
            raise UserError(
                f"the log {path!r} has no folder dt={date}; it has {days[0]} to {days[-1]}"
            )
    return LogFiles(date, storage, files, filtered)


def folder_columns(path: str, schema: pa.Schema) -> dict[str, str | None]:
    """Return the columns that a file's folders define, as in `segment=mobile/part-0.parquet`."""
    parts = (folder.partition("=") for folder in path.split("/")[:-1])
    return {
        name: None if value == _HIVE_NULL else unquote(value)
        for name, equals, value in parts
        if equals and name in schema.names
    }


def check_columns(names: Sequence[str], schema: pa.Schema, path: str) -> None:
    """Raise UserError if a file lacks a required column of the schema."""
    has_feedback = FEEDBACK in schema.names and FEEDBACK in names
    optional = (*OPTIONAL_COLUMNS, "clicks", "clicked") if has_feedback else OPTIONAL_COLUMNS
    missing = [n for n in schema.names if n not in names and n not in optional]
    if missing:
        other = "document set log.layout=impression"
        if "doc_id" in schema.names:
            other = "page set log.layout=page"
        present = printable(", ".join(names)) or "none"
        raise UserError(
            f"{path} has no column {', '.join(missing)}; it has {present}. For one row per {other}"
        )


def _folder_and_pattern(path: str) -> tuple[Storage, str | None]:
    """Split a path into a folder and the pattern below it; None: all files of the folder."""
    base, question, query = path.partition("?") if "://" in path else (path, "", "")
    parts = base.rstrip("/").split("/")
    wild = [n for n, part in enumerate(parts) if any(c in part for c in "*[")]
    if not wild and not Storage(path).is_file():
        return Storage(path), None
    at = wild[0] if wild else len(parts) - 1
    folder = "/".join(parts[:at]) or ("/" if base.startswith("/") else ".")
    return Storage(folder + question + query), "/".join(parts[at:])
