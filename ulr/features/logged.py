"""Features that the log recorded with its pages: the table `logged_features`, by day."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ulr.errors import InvalidData, UserError
from ulr.features.files import FeatureFiles, day_number
from ulr.warehouse.manifest import Manifest
from ulr.warehouse.tables import Warehouse

TABLE = "logged_features"


@dataclass(frozen=True)
class LoggedFeatures(FeatureFiles):
    """The published files of some dates. versions: the fingerprint of each date."""

    versions: dict[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> Any:
        """The versions of the dates, and whether rows are read with their day."""
        return {"table": TABLE, "versions": self.versions, "by_day": self.by_day}


def open_logged(
    warehouse: Warehouse, dates: Sequence[dt.date] = (), *, by_day: bool = True
) -> LoggedFeatures:
    """Return the features that the log recorded on some dates (none: the latest).

    by_day: read every row with its day. Raises UserError if a date has not been read with
    `log.features`, or no date has features.
    """
    chosen = [f"dt={date}" for date in dates] or warehouse.partitions(TABLE)[-1:]
    if not chosen:
        raise _unread("any date")
    manifests = [_published(warehouse, partition) for partition in chosen]
    found = [(manifest, path) for manifest in manifests for path in warehouse.paths(manifest)]
    if not found:
        raise InvalidData(
            f"the log recorded no features from {min(chosen)[3:]} to {max(chosen)[3:]}: its column "
            "features is missing or null on every page; name the column, or an expression for it, "
            "in log.columns.features"
        )
    days = [day_number(dt.date.fromisoformat(manifest.partition[3:])) for manifest, _ in found]
    return LoggedFeatures(
        warehouse.storage.url,
        warehouse.storage.stat([path for _, path in found]),
        by_day=by_day,
        days=tuple(sorted(set(days))),
        folder_days=tuple(days),
        versions={manifest.partition: manifest.fingerprint for manifest in manifests},
    )


def _published(warehouse: Warehouse, partition: str) -> Manifest:
    groups, manifest = warehouse.current("groups", partition), warehouse.current(TABLE, partition)
    if manifest is None or groups is None or groups.settings["log"].get("features") is None:
        raise _unread(partition.removeprefix("dt="))
    return manifest


def _unread(date: str) -> UserError:
    return UserError(
        f"features.source=log: the features of {date} have not been read from the log; run "
        f"`ulr groups --date {date if date[0].isdigit() else 'DATE'}` with log.features set"
    )
