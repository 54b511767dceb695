"""Remove the folders of versions that no reader or writer needs.

A replaced version stays for `warehouse.keep_days`, because a reader may hold a list of its files.
A folder that was never published is removed at once where a lock excludes other writers, and after
a grace period elsewhere. A folder without ulr's marker, or that no manifest has named, is never
removed.
"""

from __future__ import annotations

import datetime as dt

from ulr.warehouse.manifest import Manifest, Replaced
from ulr.warehouse.storage import Storage
from ulr.warehouse.table_files import MARKER

GRACE = dt.timedelta(days=1)  # longer than any run takes to publish a table


def replaced_versions(current: Manifest | None, keep_days: float) -> list[Replaced]:
    """Return the versions that a new manifest lists as replaced: the current one, and recent ones.

    keep_days: how long a version stays after it was replaced.
    """
    if current is None:
        return []
    now = _now()
    known = [entry if entry.at else entry._replace(at=now) for entry in current.replaced]
    return [*_recent(known, keep_days), Replaced(current.folder, now)]


def remove_unneeded(
    storage: Storage, where: str, manifest: Manifest | None, keep_days: float, *, locked: bool
) -> None:
    """Remove folders of the partition `where` that are neither current nor recently replaced.

    locked: no other process can be writing the partition.
    """
    names = [name for name in storage.folders(where) if "=" not in name]
    replaced = manifest.replaced if manifest else []
    kept = {entry.folder for entry in _recent(replaced, keep_days)}
    expired = {entry.folder for entry in replaced} - kept
    current = {manifest.folder} if manifest else set()
    for name in names:
        if name in current | kept:
            continue
        if name in expired or _abandoned(storage, where, name, locked=locked):
            storage.delete(where, name)


def _abandoned(storage: Storage, where: str, name: str, *, locked: bool) -> bool:
    """Return whether a run of ulr has created the folder and cannot publish it any more."""
    info = storage.fs.get_file_info(storage.path(where, name, MARKER))
    if not info.is_file:
        return False
    return locked or dt.datetime.now(dt.timezone.utc) - info.mtime > GRACE


def _recent(replaced: list[Replaced], keep_days: float) -> list[Replaced]:
    oldest = dt.datetime.now(dt.timezone.utc) - dt.timedelta(days=keep_days)
    return [e for e in replaced if not e.at or dt.datetime.fromisoformat(e.at) > oldest]


def _now() -> str:
    return dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")
