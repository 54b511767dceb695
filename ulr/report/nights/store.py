"""Keep the rows of all nights, and the page made from them, under `reports` of the warehouse.

The page is a function of the facts of the nights. Their rows are kept in a file with the size and
the time of each file of facts, so that a night reads the facts that were written since.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from ulr.report.facts import read_facts
from ulr.report.nights.page import nights_page
from ulr.report.nights.rows import (
    History,
    NightRow,
    facts_of_summary,
    read_row,
    row_of,
    unreadable,
)
from ulr.report.store import FOLDER, INDEX
from ulr.warehouse.storage import Storage, StoredFile

SUMMARIES = "nights"
_FORMAT = 1  # of the file of rows; another number is ignored


class _Source(NamedTuple):
    """The file with the data of a night, and a text that changes whenever the file does."""

    folder: str
    stamp: str


def write_index(storage: Storage) -> str | None:
    """Write the page over all nights and return it; None if there is no night."""
    history = read_history(storage)
    if not history.nights:
        return None
    content = nights_page(history)
    storage.write_text(content, FOLDER, f"{INDEX}.html")
    return content


def read_history(storage: Storage) -> History:
    """Return all nights; keep their rows for the next time."""
    reports = {file.path.rpartition("/")[2]: file for file in storage.files(FOLDER)}
    sources = dict(_sources(storage.files(SUMMARIES))) | dict(_sources(list(reports.values())))
    kept, metric = _kept(storage), ""
    rows: dict[str, NightRow] = {}
    for date in sorted(sources, reverse=True):  # the newest one first: all take its metric
        row = kept.get((date, sources[date]))
        if row is None or (metric and row.metric and row.metric != metric):
            row = _read(storage, date, sources[date], metric)
        rows[date] = row
        metric = metric or row.metric
    nights = [rows[date] for date in sorted(rows)]
    if rows != {date: row for (date, _), row in kept.items()}:
        _keep(storage, nights, sources)
    pages = frozenset(n.removesuffix(".html") for n in reports if n.endswith(".html")) - {INDEX}
    return History(nights, pages, sorted(pages - set(sources)))


def _sources(files: list[StoredFile]) -> Iterator[tuple[str, _Source]]:
    for file in files:
        folder, _, name = file.path.rpartition("/")
        if name.endswith(".json") and _is_date(date := name.removesuffix(".json")):
            yield date, _Source(folder, f"{file.size} {file.mtime_ns}")


def _read(storage: Storage, date: str, source: _Source, metric: str) -> NightRow:
    try:
        content = storage.read_json(source.folder, f"{date}.json") or {}
        facts = facts_of_summary(content) if source.folder == SUMMARIES else read_facts(content)
        return row_of(replace(facts, name=date), metric)
    except (ValueError, TypeError, KeyError, AttributeError):  # not JSON, or not of a night
        return unreadable(date)


def _kept(storage: Storage) -> dict[tuple[str, _Source], NightRow]:
    """Return the rows of the last time; none if their file is damaged or of another format."""
    try:
        content = storage.read_json(FOLDER, f"{INDEX}.json") or {}
        if content.get("format") != _FORMAT:
            return {}
        return {(one["row"]["date"], _Source(one["folder"], one["stamp"])): read_row(one["row"])
                for one in content["nights"]}  # fmt: skip
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def _keep(storage: Storage, nights: list[NightRow], sources: dict[str, _Source]) -> None:
    entries: list[dict[str, Any]] = [
        {**sources[night.date]._asdict(), "row": night.to_json()} for night in nights
    ]
    storage.write_json({"format": _FORMAT, "nights": entries}, FOLDER, f"{INDEX}.json")


def _is_date(name: str) -> bool:
    try:
        return str(dt.date.fromisoformat(name)) == name
    except ValueError:
        return False
