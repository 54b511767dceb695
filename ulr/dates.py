"""Dates as users write them: one, or a range."""

from __future__ import annotations

import datetime as dt

from ulr.errors import UserError


def parse_dates(text: str) -> list[dt.date]:
    """`2026-01-31`, or `2026-01-01..2026-01-31`, both ends included."""
    first, dots, last = text.partition("..")
    try:
        start = dt.date.fromisoformat(first)
        end = dt.date.fromisoformat(last) if dots else start
    except ValueError:
        raise UserError(
            f"--date {text}: expected a date such as 2026-01-31, or a range 2026-01-01..2026-01-31"
        ) from None
    if end < start:
        raise UserError(f"--date {text}: the range ends before it begins")
    return [start + dt.timedelta(days=n) for n in range((end - start).days + 1)]
