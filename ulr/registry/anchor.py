"""The anchor: the champion of some days ago, which bounds the loss of many small steps."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from ulr.registry import tags
from ulr.registry.client import RegisteredVersion, Registry


def find_anchor(
    registry: Registry, champion: RegisteredVersion, day: str, days: int
) -> RegisteredVersion:
    """Return the champion of `days` before `day`; the first champion if there was none yet.

    day: last date of the challenger's window. The time of a version is the last date of its window,
    so that nights which are run at once have the anchors of nights that are run one by one.
    """
    if (until := _date(day)) is None or days == 0:
        return champion
    start = until - dt.timedelta(days=days)
    # Without the champions already visited: a version may have been promoted twice.
    earlier, anchor = {v.version: v for v in registry.versions()}, champion
    while (own := _date(last_day(anchor.tags))) and own > start:
        earlier.pop(anchor.version, None)
        previous = earlier.get(int(anchor.tags.get(tags.PREVIOUS_CHAMPION) or 0))
        if previous is None:
            break
        anchor = previous
    return anchor


def last_day(version_tags: Mapping[str, str]) -> str:
    """Return the last date of the window that a version was trained on; `unknown` without one."""
    return version_tags.get(tags.WINDOW, "unknown").rpartition("..")[2]


def window_days(version_tags: Mapping[str, str]) -> int | None:
    """Return the number of days of the window that a version was trained on."""
    first, _, last = version_tags.get(tags.WINDOW, "unknown").partition("..")
    start, end = _date(first), _date(last)
    return (end - start).days + 1 if start and end else None


def _date(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None
