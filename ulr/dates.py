"""Dates as users write them, and the date that is held out."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

from ulr.errors import UserError

_DATE = re.compile(r"\{date(?::([^{}]+))?\}")


def parse_dates(text: str) -> list[dt.date]:
    """Return the dates of `2026-01-31`, or of `2026-01-01..2026-01-31`, both ends included."""
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


def held_out(dates: Sequence[dt.date], by_time: bool) -> tuple[list[dt.date], list[dt.date]]:
    """Return the dates to train on and those to evaluate on: all and all, or split by time.

    Split by time, the last date is for evaluation and the dates before it are for training.
    """
    if not by_time:
        return list(dates), list(dates)
    if len(dates) < 2:
        raise UserError(
            f"evaluate.holdout=time holds out {dates[-1]}, and no earlier date has groups to train "
            "on; build an earlier date, or use evaluate.holdout=query"
        )
    return list(dates[:-1]), [dates[-1]]


def with_date(text: str, date: dt.date) -> str:
    """Replace `{date}` by 2026-01-31, and `{date:%Y%m%d}` by the date in that format."""
    return _DATE.sub(lambda m: date.strftime(m[1]) if m[1] else date.isoformat(), text)


def has_date(*texts: str | None) -> bool:
    """Return whether a text contains a `{date}`."""
    return any(text is not None and _DATE.search(text) for text in texts)
