"""Feature lists as matrices, and the check that all rows have one length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ulr.engine.columns import lists, offsets_and_values
from ulr.errors import InvalidData


def check_width(
    lengths: np.ndarray,
    *,
    rows: np.ndarray | int = 1,
    width: int | None = None,
    name: Callable[[int], str] = "row {}".format,
) -> int:
    """Return the number of features per row; raise InvalidData if it is not the same everywhere.

    lengths: int64, feature values of each entry. rows: rows in each entry (one entry may hold all
    rows of a query). width: expected features per row; by default those of the first entry.
    name: describes an entry by its index, for the error message.
    """
    if lengths.size == 0:
        return width or 0
    counts = np.broadcast_to(rows, lengths.shape)
    if width is None:
        width = int(lengths[0] // max(counts[0], 1))
    wrong = np.flatnonzero(lengths != counts * width)
    if wrong.size:
        i = int(wrong[0])
        size = f"{lengths[i]} values" + (f" in {counts[i]} rows" if counts[i] != 1 else "")
        raise InvalidData(
            f"features of {name(i)}: {size} where another row has {width}; features must have one "
            "length for all"
        )
    return width


def feature_width(features: pa.Table, rows: np.ndarray) -> int:
    """Return the number of features of these rows (int64 indices); 0 for no rows."""

    def name(i: int) -> str:
        row = int(rows[i])
        return f"query {features['query_id'][row]}, document {features['doc_id'][row]}"

    return check_width(lists(features["features"]).lengths[rows], name=name)


def feature_matrix(features: pa.Table) -> np.ndarray:
    """Return all rows as float32, rows x width; float32 values are not copied."""
    width = feature_width(features, np.arange(features.num_rows))
    _, values = offsets_and_values(features["features"])
    return _floats(values).reshape(features.num_rows, width)


def take_features(features: pa.Table, rows: np.ndarray, width: int) -> np.ndarray:
    """Return the chosen rows (int64 indices, all of this width) as float32, rows x width."""
    if rows.size == 0:
        return np.zeros((0, width), np.float32)
    offsets, values = offsets_and_values(features["features"])
    lengths, flat = np.diff(offsets), _floats(values)
    usable = lengths == width
    if not usable.all():  # rows of other lengths belong to documents that were never shown
        flat, rows = flat[np.repeat(usable, lengths)], (np.cumsum(usable) - 1)[rows]
    return flat.reshape(-1, width)[rows]


def _floats(values: pa.Array) -> np.ndarray:
    return values.to_numpy(zero_copy_only=False).astype(np.float32, copy=False)
