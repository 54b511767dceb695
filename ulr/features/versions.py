"""Features by day: every group takes those of its own day.

A document whose features change has a row of the window for each distinct vector. Rows that do not
change are stored once, and histograms of equal rankings are added up where all their rows are the
same, so a window of many days is no larger than the changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ulr.clicklog.vectors import hash_vectors
from ulr.engine.columns import hashes, list_array, offsets_and_values, whole
from ulr.features.layout import day_field
from ulr.kernels.hashing import hash_lists, hash_words
from ulr.kernels.merge import group_keys

NO_FEATURES = np.uint64(0)  # the version of a document without features on a day


class Versions(NamedTuple):
    """groups, features: with further columns. repeats: uint64, the query of each feature row of a
    shown document that repeats a row of its day, and is not used."""

    groups: pa.Table
    features: pa.Table
    repeats: np.ndarray


def by_version(groups: pa.Table, features: pa.Table) -> Versions:
    """Return groups and features with columns that tell the versions of documents apart.

    groups, features: with a column `day`; of several feature rows of a document and a day the
    first counts. Groups get `keys`, a list of uint64 with document and version at each position,
    and `variant`, a hash of it. Features get `key` and `latest`, whether the row is the latest of
    its document; `label` becomes that of the latest row. Rows of equal keys are stored once, the
    latest rows first.
    """
    latest_first = np.argsort(-_days(features).view(np.int64), kind="stable")
    features = features.take(pa.array(latest_first))
    query, document = hashes(features["query_id"]), hashes(features["doc_id"])
    content = hash_vectors(features["features"])
    group_docs, docs = offsets_and_values(groups["doc_ids"])
    sizes, shown = np.diff(group_docs), hashes(docs)
    # Number the (query, day, document) of both tables together, those with features first.
    query_day = hash_words(_days(features), query)
    shown_day = np.repeat(hash_words(_days(groups), hashes(groups["query_id"])), sizes)
    rows = np.arange(features.num_rows)
    number, first = group_keys(
        np.concatenate([query_day, shown_day]), np.concatenate([document, shown])
    )
    version = np.full(first.size, NO_FEATURES)
    version[first < rows.size] = content[first[first < rows.size]]
    keys = hash_words(version[number[rows.size :]], shown)
    variant = hash_lists(group_docs[:-1], sizes, keys)
    groups = groups.append_column("keys", list_array(sizes, keys))
    groups = groups.append_column("variant", pa.array(variant))
    is_shown = np.zeros(first.size, bool)
    is_shown[number[rows.size :]] = True
    is_first = first[number[: rows.size]] == rows
    own, latest = group_keys(query, document)
    key = hash_words(content, document)
    added = {"key": pa.array(key), "latest": pa.array(latest[own] == rows)}
    for name, column in added.items():
        features = features.append_column(name, column)
    label = whole(features["label"]).take(pa.array(latest[own]))
    at = features.schema.get_field_index("label")
    features = features.set_column(at, features.schema.field(at), label)
    kept = np.flatnonzero(is_first)
    kept = kept[group_keys(query[kept], key[kept])[1]]
    repeats = query[~is_first & is_shown[number[: rows.size]]]
    return Versions(groups, features.take(pa.array(kept)), repeats)


def in_own_order(features: pa.Table) -> pa.Table:
    """Return feature rows in an order that depends on the rows only."""
    keys = (hashes(features[name]) for name in ("doc_id", "query_id"))
    labels = features["label"].fill_null(-1).to_numpy()
    order = np.lexsort((labels, hash_vectors(features["features"]), *keys))
    return features.take(pa.array(order))


def _days(table: pa.Table) -> np.ndarray:
    """Return the days since 1970 as words (uint64)."""
    days: np.ndarray = table[day_field.name].to_numpy().astype(np.uint64)
    return days
