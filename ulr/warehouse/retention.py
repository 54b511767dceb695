"""Remove dated partitions, summaries and pages that are older than the settings allow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from ulr.config.settings import Warehouse as WarehouseSettings
from ulr.errors import UserError
from ulr.warehouse.cleanup import remove_unneeded
from ulr.warehouse.lock import hold
from ulr.warehouse.manifest import MANIFEST
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse
from ulr.warehouse.verify import published

QUARANTINE = "quarantine"
_TABLES = ("groups", "logged_features", "swap_counts", "swap_documents", QUARANTINE)
_FILES = ("nights", "reports")  # files whose names begin with the date of the night
_PREFIX = "dt="


@dataclass(frozen=True)
class Expired:
    """A partition of a table, or the files of a night, past its retention."""

    table: str
    date: dt.date
    paths: tuple[str, ...]
    size: int


def newest_date(warehouse: Warehouse) -> dt.date | None:
    """Return the newest date that has groups; None if there is none."""
    dates = [date for name in warehouse.storage.folders("groups") if (date := _date(name))]
    return max(dates, default=None)


def check_retention(settings: WarehouseSettings, window_days: int) -> None:
    """Raise UserError if dates of a window would be removed while it needs them."""
    if settings.retention_days is not None and settings.retention_days < window_days:
        raise UserError(
            f"warehouse.retention_days = {settings.retention_days} is shorter than the window "
            f"(propensities.window_days = {window_days}); keep at least as many days"
        )


def find_expired(
    warehouse: Warehouse, settings: WarehouseSettings, today: dt.date
) -> list[Expired]:
    """Return everything that is older than its retention on the date `today`."""
    found: list[Expired] = []
    for table in (*_TABLES, *_FILES):
        days = settings.quarantine_days if table == QUARANTINE else settings.retention_days
        if days is not None:
            first = today - dt.timedelta(days=days - 1)  # the oldest date that is kept
            dated = _partitions if table in _TABLES else _files
            found += dated(warehouse.storage, table, first)
    return sorted(found, key=lambda one: (one.date, one.table))


def remove_expired(warehouse: Warehouse, expired: list[Expired]) -> None:
    """Remove partitions and files.

    The manifest of a partition is deleted first, so that no reader finds a partition without its
    files. If that is interrupted, the partition is found again.
    """
    storage = warehouse.storage
    for one in expired:
        if one.table in _FILES:
            for path in one.paths:
                storage.delete(path)
            continue
        (where,) = one.paths
        with hold(storage, where, f"{one.table} {_PREFIX}{one.date}"):
            storage.delete(where, MANIFEST)
            storage.delete(where)


def remove_replaced(warehouse: Warehouse) -> None:
    """Remove versions that were replaced longer ago than `keep_days`, in all tables.

    A publication does this for its own partition.
    """
    for where, manifest in published(warehouse.storage):
        if manifest is not None:
            keep_days = warehouse.keep_days
            remove_unneeded(warehouse.storage, where, manifest, keep_days, locked=False)


def _partitions(storage: Storage, table: str, first: dt.date) -> Iterator[Expired]:
    for name in storage.folders(table):
        date = _date(name)
        if date is not None and date < first:
            size = sum(file.size for file in storage.all_files(table, name))
            yield Expired(table, date, (f"{table}/{name}",), size)


def _files(storage: Storage, folder: str, first: dt.date) -> Iterator[Expired]:
    """Yield the files of a night together; names of other reports do not begin with a date."""
    by_date: dict[dt.date, list[tuple[str, int]]] = {}
    for file in storage.files(folder):
        date = _date(file.path.removeprefix(f"{folder}/").partition(".")[0], prefix="")
        if date is not None and date < first:
            by_date.setdefault(date, []).append((file.path, file.size))
    for date, files in by_date.items():
        paths, sizes = zip(*files, strict=True)
        yield Expired(folder, date, paths, sum(sizes))


def _date(name: str, prefix: str = _PREFIX) -> dt.date | None:
    if not name.startswith(prefix):
        return None
    try:
        return dt.date.fromisoformat(name.removeprefix(prefix))
    except ValueError:
        return None
