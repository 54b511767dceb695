"""The groups of a window of dates: which dates are published, their files and fingerprints."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from ulr.dates import parse_dates
from ulr.errors import UserError
from ulr.warehouse.tables import Warehouse


def window_dates(warehouse: Warehouse, text: str, days: int) -> list[dt.date]:
    """Return the published dates of the window D1..D2, or of the `days` days that end on a date."""
    dates = parse_dates(text)
    if ".." not in text:
        dates = [dates[0] - dt.timedelta(days=n) for n in reversed(range(days))]
    names = warehouse.partitions("groups")
    published = [date for date in dates if f"dt={date}" in names]
    if not published:
        hint = f"there is {names[0]} to {names[-1]}" if names else "run `ulr groups` first"
        raise UserError(f"no groups from {dates[0]} to {dates[-1]} in the warehouse; {hint}")
    return published


def groups_files(warehouse: Warehouse, dates: Sequence[dt.date]) -> list[str]:
    """Return the paths of the dates' groups; raise UserError if a date is not published."""
    return [file for date in dates for file in warehouse.files("groups", f"dt={date}")]


def groups_fingerprints(warehouse: Warehouse, dates: Sequence[dt.date]) -> dict[str, str]:
    """Return the fingerprint of each date's groups, by partition name."""
    return {f"dt={d}": warehouse.require("groups", f"dt={d}").fingerprint for d in dates}
