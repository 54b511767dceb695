"""The groups of a window of dates: published dates, files, fingerprints, and their sum."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ulr.dates import parse_dates
from ulr.engine.columns import hashes, patterns_of
from ulr.errors import UserError
from ulr.kernels.hashing import hash_words
from ulr.kernels.layout import Patterns
from ulr.kernels.merge import group_keys, merge_patterns
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


def damage_of(warehouse: Warehouse, date: dt.date) -> str:
    """Return what is wrong with the published groups of a date; "" if nothing is."""
    manifest = warehouse.current("groups", f"dt={date}")
    if manifest is None:
        return f"the manifest of groups dt={date} is damaged"
    return "; ".join(warehouse.damage(manifest)[:3])


def sum_window(groups: pa.Table) -> tuple[pa.Table, Patterns]:
    """Sum the histograms of equal (query, segment, ranking) over dates, buckets and arms.

    groups: may have the columns `day` and `variant` (uint64): rankings of different variants are
    not equal. Returns one row per group, sorted by that key, and its click patterns; the columns
    `patterns` and `counts` of the rows are those of one date.
    """
    keys = ("query_id", "segment", "ranking", "day")
    order = [(name, "ascending") for name in keys if name in groups.schema.names]
    groups = groups.sort_by(order).combine_chunks()
    context = hashes(groups["segment"], hashes(groups["query_id"]))
    ranking = groups["ranking"].to_numpy().view(np.uint64)
    if "variant" in groups.schema.names:
        ranking = hash_words(ranking, groups["variant"].to_numpy())
    group, first = group_keys(context, ranking)
    merged = merge_patterns(group, first.size, patterns_of(groups))
    return groups.take(pa.array(first)), merged
