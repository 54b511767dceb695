"""Sums over documents that were shown at several positions, as arrays: the data of harvesting.

Sums are integers, so their last bits do not depend on the order of rows (docs/methods.md section
3.6).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ulr.engine.columns import lists
from ulr.kernels.layout import Ragged
from ulr.propensity.schema import HARVEST_SUMS, harvest_units_schema

ENTRIES_AT_ONCE = 100_000  # bounds the memory of a task
UNIT, REST = 2.0**20, 2.0**36  # a sum has units of 2^-20 and a rest in units of 2^-56


class Seen(NamedTuple):
    """Clicks and impressions of documents by day and position, or by position (day 0).

    All are int64 of one length, sorted by document, day and position, without repetitions.
    """

    document: np.ndarray
    day: np.ndarray
    position: np.ndarray
    clicks: np.ndarray
    impressions: np.ndarray


Part = tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]


def pair_sums(batches: Iterator[pa.RecordBatch], *, weight: str) -> Iterator[pa.RecordBatch]:
    """Yield sums by segment, block and pair of positions: `harvest_units_schema`.

    Batches have one row per query and segment: segment, block and seen, a list of structs with the
    fields of Seen. The document may be any number.
    """
    for batch in batches:
        end = np.cumsum(lists(batch["seen"]).lengths) // ENTRIES_AT_ONCE
        cuts = np.flatnonzero(np.diff(end, prepend=-1))
        for start, stop in pairwise([*cuts.tolist(), batch.num_rows]):
            yield _sums(batch.slice(start, stop - start), weight)


def _sums(batch: pa.RecordBatch, weight: str) -> pa.RecordBatch:
    segments = batch["segment"].dictionary_encode()
    daily, query = _seen(batch)
    block = batch["block"].to_numpy().astype(np.int64)
    parts = [_whole(_totals(daily), query, weight), _within_days(daily), _between_days(daily)]
    document, k, v = (np.concatenate([part[i] for part in parts]) for i in range(3))
    segment = segments.indices.fill_null(len(segments.dictionary)).to_numpy().astype(np.int64)
    shape = (len(segments.dictionary) + 1, *(int(x.max(initial=0)) + 1 for x in (block, k, k)))
    row_of_query = np.stack([segment, block])[:, query[document]]
    keys, row = np.unique(np.ravel_multi_index((*row_of_query, k, v), shape), return_inverse=True)
    number, *key = np.unravel_index(keys, shape)
    arrays = [segments.dictionary.take(pa.array(number, mask=number == len(segments.dictionary)))]
    arrays += [pa.array(column.astype(np.int32)) for column in key]
    rows = np.split(row, np.cumsum([part[1].size for part in parts[:-1]]))
    sums = {
        name: [pa.array(_exact_sum(x, own, keys.size)) for x in _split(values)]
        for part, own in zip(parts, rows, strict=True)
        for name, values in part[3].items()
    }
    arrays += [column for name in HARVEST_SUMS for column in sums[name]]
    return pa.RecordBatch.from_arrays(arrays, schema=harvest_units_schema)


def _split(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    units = np.floor(x * UNIT)
    return units, np.rint((x * UNIT - units) * REST)


def _exact_sum(x: np.ndarray, row: np.ndarray, rows: int) -> np.ndarray:
    total = np.zeros(rows, np.int64)
    np.add.at(total, row, x.astype(np.int64))
    return total


def _seen(batch: pa.RecordBatch) -> tuple[Seen, np.ndarray]:
    """Return the entries, documents numbered from 0, and the row of each document."""
    seen = lists(batch["seen"])
    row = np.repeat(np.arange(batch.num_rows), seen.lengths)
    entries = batch["seen"].flatten()
    columns = [entries.field(name).to_numpy().astype(np.int64) for name in Seen._fields]
    order = np.lexsort((columns[2], columns[1], columns[0], row))
    row, name, day, position, clicks, impressions = (x[order] for x in (row, *columns))
    first = np.ones(row.size, bool)
    first[1:] = (row[1:] != row[:-1]) | (name[1:] != name[:-1])
    return Seen(np.cumsum(first) - 1, day, position, clicks, impressions), row[first]


def _totals(daily: Seen) -> Seen:
    """Return the sums over days."""
    places = int(daily.position.max(initial=0)) + 1
    keys, row = np.unique(daily.document * places + daily.position, return_inverse=True)
    clicks, impressions = (_exact_sum(x, row, keys.size) for x in daily[3:])
    return Seen(keys // places, np.zeros_like(keys), keys % places, clicks, impressions)


def _whole(seen: Seen, query: np.ndarray, weight: str) -> Part:
    """Return the sums of the estimate, and clicks times the steepness of the query."""
    i, j = _pairs(seen.document)
    n, m, c = seen.impressions[i], seen.impressions[j], seen.clicks[i]
    stratum = n * m / (n + m)
    own = stratum if weight == "pooled" else np.ones(i.size)
    sums = {
        "clicks": own * c / n,
        "impressions": own,
        "documents": np.ones(i.size),
        "steep": own * c / n * steepness(seen, query)[seen.document[i]],
    }
    return seen.document[i], seen.position[i], seen.position[j], sums


def steepness(seen: Seen, query: np.ndarray) -> np.ndarray:
    """Return for every document how steeply relevance falls among the others of its query.

    It is the covariance, over pages at one position, of a click and the mean log position of the
    clicked document, per click and negative. seen: totals over days.
    """
    log_position, n = np.log(seen.position), seen.impressions
    mean = np.bincount(seen.document, n * log_position) / np.bincount(seen.document, n)
    columns = np.stack([n, seen.clicks, n * mean[seen.document], seen.clicks * mean[seen.document]])
    places_per_query = int(seen.position.max(initial=0)) + 1
    place = query[seen.document] * places_per_query + seen.position
    places, cell = np.unique(place, return_inverse=True)
    at_place = np.stack([np.bincount(cell, column) for column in columns])
    of_query = places // places_per_query
    every = np.stack([np.bincount(of_query, x) for x in (_covariance(at_place), at_place[1])])
    changed = _covariance(at_place[:, cell] - columns) - _covariance(at_place)[cell]
    covariance = every[0][query] + np.bincount(seen.document, changed)
    clicks = every[1][query] - np.bincount(seen.document, seen.clicks)
    return -covariance / np.maximum(clicks, 1)


def _covariance(sums: np.ndarray) -> np.ndarray:
    """Return the sum of (click - mean)(x - mean) from the sums of 1, click, x and click x."""
    n, click, x, both = sums
    return both - click * x / np.maximum(n, 1)


def _within_days(daily: Seen) -> Part:
    """Return the weighted clicks of documents that were shown at both positions on one day."""
    i, j = _pairs(daily.document * (int(daily.day.max(initial=0)) + 1) + daily.day)
    n, m = daily.impressions[i], daily.impressions[j]
    sums = {"within": m / (n + m) * daily.clicks[i]}
    return daily.document[i], daily.position[i], daily.position[j], sums


def _between_days(daily: Seen) -> Part:
    """Return the same of a position on one day and another position on all other days."""
    total = _totals(daily)
    start = np.searchsorted(total.document, daily.document)
    lengths = np.searchsorted(total.document, daily.document, side="right") - start
    pairs = Ragged.from_lengths(lengths)
    i = pairs.owner()
    j = start[i] + pairs.within()
    keep = daily.position[i] != total.position[j]
    i, j = i[keep], j[keep]
    clicks, impressions = total.clicks[j].copy(), total.impressions[j].copy()
    same, where = _find(daily, daily.document[i], daily.day[i], total.position[j])
    clicks[same] -= daily.clicks[where]
    impressions[same] -= daily.impressions[where]
    keep = impressions > 0
    i, j, clicks, m = i[keep], j[keep], clicks[keep], impressions[keep]
    n = daily.impressions[i]
    k, v = daily.position[i], total.position[j]
    values = np.concatenate([m / (n + m) * daily.clicks[i], n / (n + m) * clicks])
    document = np.tile(daily.document[i], 2)
    return document, np.concatenate([k, v]), np.concatenate([v, k]), {"between": values}


def _find(
    daily: Seen, document: np.ndarray, day: np.ndarray, position: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return which triples are rows of `daily`, and where: two int64 arrays of one length."""
    days, places = (int(x.max(initial=0)) + 1 for x in daily[1:3])

    def key(d: np.ndarray, t: np.ndarray, p: np.ndarray) -> np.ndarray:
        return (d * days + t) * places + p

    rows, wanted = key(*daily[:3]), key(document, day, position)
    at = np.minimum(np.searchsorted(rows, wanted), rows.size - 1)
    same = np.flatnonzero(rows[at] == wanted)
    return same, at[same]


def _pairs(group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all ordered pairs of different elements of each group; group is sorted."""
    start = np.searchsorted(group, group)
    lengths = np.searchsorted(group, group, side="right") - start
    pairs = Ragged.from_lengths(lengths)
    i = pairs.owner()
    j = start[i] + pairs.within()
    keep = i != j
    return i[keep], j[keep]
