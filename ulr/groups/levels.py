"""Levels of feedback in files of groups: their names, and patterns of some of them.

The names are in the metadata of a file. A file without names counts clicks: an older file, or one
of a log without feedback.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ulr.clicklog.events import CLICK
from ulr.engine.columns import list_array, patterns_of
from ulr.errors import UserError
from ulr.kernels.patterns import select_levels
from ulr.warehouse.schema import groups_schema
from ulr.warehouse.tables import Warehouse

CLICKS = (CLICK,)  # the levels of a log of clicks
_KEY = b"levels"


def schema_with(names: Sequence[str]) -> pa.Schema:
    """Return `groups_schema` for a file with these levels; without metadata for clicks only."""
    if tuple(names) in ((), CLICKS):
        return groups_schema
    return groups_schema.with_metadata({_KEY: json.dumps(list(names))})


def names_in(schema: pa.Schema) -> tuple[str, ...]:
    """Return the names of the levels of a file, lowest first."""
    text = (schema.metadata or {}).get(_KEY)
    return CLICKS if text is None else tuple(json.loads(text))


def with_levels(
    groups: pa.Table | pa.RecordBatch, names: Sequence[str], wanted: Sequence[str]
) -> pa.Table | pa.RecordBatch:
    """Return groups with the patterns of the wanted levels.

    names: the levels of the groups, a subset of `wanted` in the same order, or a superset. A
    document has a wanted level if it has that event or one of a higher level.
    """
    if tuple(names) == tuple(wanted):
        return groups
    return _select(groups, len(names), _sources(names, wanted))


def _select(
    groups: pa.Table | pa.RecordBatch, levels: int, chosen: Sequence[int]
) -> pa.Table | pa.RecordBatch:
    """Return groups with the patterns of some levels, from 0; -1: no document."""
    selected = select_levels(patterns_of(groups), levels, np.array(chosen, np.int64))
    column = list_array(np.diff(selected.word_offsets), selected.words)
    columns = [column if n == "patterns" else groups[n] for n in groups.schema.names]
    return type(groups).from_arrays(columns, names=groups.schema.names)


def one_level(
    groups: pa.RecordBatch, names: Sequence[str], events: Sequence[str] = ()
) -> pa.RecordBatch:
    """Return groups with the patterns of one level: documents with one of these events.

    names: the levels of the groups. events: a level and all higher ones; (): any event.
    """
    level = min((names.index(name) for name in events or names if name in names), default=-1)
    if len(names) == 1 and level == 0:
        return groups
    return _select(groups, len(names), [level])


def window_levels(warehouse: Warehouse, dates: Sequence[dt.date]) -> tuple[str, ...]:
    """Return the levels of a window: those of the date with the most.

    Raises UserError if another date has a level that this one lacks, or has them in another order.
    """
    by_date = {date: published_levels(warehouse, date) for date in dates}
    latest = max(by_date, key=lambda date: (len(by_date[date]), date))
    names = by_date[latest]
    for date, own in by_date.items():
        if [name for name in names if name in own] != list(own):
            raise UserError(
                f"the groups of {date} count the events {', '.join(own)}, those of {latest} "
                f"{', '.join(names)}; run `ulr groups --date {date} --force` with one log.feedback "
                "for both, or choose other dates"
            )
    return names


def published_levels(warehouse: Warehouse, date: dt.date) -> tuple[str, ...]:
    """Return the levels of a date's groups."""
    names = warehouse.require("groups", f"dt={date}").settings.get("levels")
    return tuple(names) if names else CLICKS


def _sources(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return for each wanted level the level that stands for it, from 0; -1: none does."""
    sources = []
    for at, name in enumerate(wanted):
        higher = [names.index(n) for n in wanted[at:] if n in names]
        sources.append(names.index(name) if name in names else min(higher, default=-1))
    return sources
