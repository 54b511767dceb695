"""The heading and the summary of the page over all nights."""

from __future__ import annotations

import datetime as dt
from typing import Any

from ulr.report.blocks import Link
from ulr.report.format import count
from ulr.report.nights.rows import History, NightRow

SHOWN = 10  # dates without a night


def heading(history: History) -> str:
    """Return the champion in one sentence."""
    known = [night for night in history.nights if night.champion is not None]
    if not known:
        return "There is no champion yet."
    version = known[-1].champion
    since = next((n for n in reversed(known) if n.promoted and n.version == version), None)
    text = f"Version {version} is the champion"
    return f"{text}, promoted by the night of {since.date}." if since else f"{text}."


def context(history: History) -> dict[str, Any]:
    """Return the latest night, numbers of nights and dates without one."""
    nights, latest = history.nights, history.nights[-1]
    missing = _missing_dates(nights)
    return {
        "latest": latest,
        "latest_link": Link(latest.date) if latest.date in history.pages else None,
        "latest_text": _text(latest),
        "bad": latest.failed,
        "totals": {
            "nights": count(len(nights)),
            "promotions": count(sum(night.promoted for night in nights)),
            "failed": count(sum(night.failed for night in nights)),
        },
        "missing": missing[-SHOWN:],
        "more_missing": max(len(missing) - SHOWN, 0),
    }


def _text(night: NightRow) -> str:
    if night.failed:
        return f"failed: {night.message}" if night.message else "failed"
    if night.promoted:
        return f"version {night.version} was promoted"
    return "the champion was kept" if night.champion is not None else "its model was not promoted"


def _missing_dates(nights: list[NightRow]) -> list[str]:
    """Return the dates between the first and the last night that have none."""
    dates = {dt.date.fromisoformat(night.date) for night in nights}
    first, days = min(dates), (max(dates) - min(dates)).days
    every = (first + dt.timedelta(days=n) for n in range(days))
    return [str(date) for date in every if date not in dates]
