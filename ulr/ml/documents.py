"""Frames of documents, with features, scores or labels, as Arrow tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ulr.engine.columns import list_array, whole
from ulr.errors import UserError
from ulr.ml.feature_rows import FeatureRows, feature_rows
from ulr.ml.frames import to_table, to_texts

IDS = ("query_id", "doc_id")


def read_documents(frame: Any, what: str) -> tuple[pa.Table, FeatureRows]:
    """Return query_id, doc_id and label of each row, and its features.

    frame: with the ids, and either a list column `features` or one column per feature. A missing
    label is null.
    """
    table = to_table(frame, what)
    names = read_ids(table, what)
    if "features" in table.column_names:
        column = whole(table["features"])
        if not isinstance(column, pa.ListArray):
            column = column.cast(pa.list_(pa.float32()))
        return names, feature_rows(column, what)
    columns = [n for n in table.column_names if n not in (*IDS, "label")]
    if not columns:
        raise UserError(f"{what} has no features; give a column for each feature besides the ids")
    return names, feature_rows(table.select(columns), what)


def read_ids(table: pa.Table, what: str) -> pa.Table:
    """Return query_id, doc_id and label (int32, null if it is missing) of each row."""
    if missing := [name for name in IDS if name not in table.column_names]:
        raise UserError(f"{what} has no column {missing[0]}; expected {', '.join(IDS)}")
    rows = table.num_rows
    label: Any = pa.nulls(rows, pa.int32())
    if "label" in table.column_names:
        try:
            label = whole(table["label"]).cast(pa.int32())
        except pa.ArrowException:
            raise UserError(f"{what}: label must be an integer or null in every row") from None
    ids = {name: to_texts(table[name], f"{what}: {name}", rows) for name in IDS}
    return pa.table({**ids, "label": label})


def features_table(frame: Any, what: str) -> pa.Table:
    """Return a frame of documents as rows of `features_schema`."""
    names, rows = read_documents(frame, what)
    values = rows.take(np.arange(rows.rows)).reshape(-1)
    column = list_array(np.full(rows.rows, rows.width), pa.array(values))
    return names.append_column("features", column)
