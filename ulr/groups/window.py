"""TODO."""

from __future__ import annotations

import datetime as dt

from ulr.dates import parse_dates
from ulr.errors import UserError
from ulr.warehouse.tables import Warehouse


def window_dates(warehouse: Warehouse, text: str, days: int) -> list[dt.date]:
    """The published dates of a window: given whole as D1..D2, or by its last day."""
    asked = parse_dates(text)
    if ".." not in text:
        asked = [asked[0] - dt.timedelta(days=n) for n in reversed(range(days))]
    there = set(warehouse.partitions("groups"))
    found = [date for date in asked if f"dt={date}" in there]
    if not found:
        names = sorted(there)
        hint = f"there is {names[0]} to {names[-1]}" if names else "run `ulr groups` first"
        raise UserError(f"no groups from {asked[0]} to {asked[-1]} in the warehouse; {hint}")
    return found
