"""Sessions as arrays to pages and feature rows, which the stages of the service read."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ulr.engine.columns import list_array
from ulr.errors import UserError
from ulr.kernels.layout import Ragged
from ulr.ml.feature_rows import FeatureRows, feature_rows
from ulr.ml.frames import to_column, to_numbers, to_texts
from ulr.ml.shown import ShownRows, by_session, split_rows
from ulr.ml.workspace import ROW_GROUP, Workspace
from ulr.warehouse.schema import features_schema, page_schema

DATE = dt.date(2020, 1, 1)  # of all sessions: histograms have no time
_UNKNOWN = ("bucket", "swapped")


@dataclass(frozen=True)
class Sessions:
    """Rows of shown documents with their features."""

    features: FeatureRows
    shown: ShownRows

    @property
    def positions(self) -> int:
        """The deepest position shown."""
        return int(self.shown.position.max(initial=1))


@dataclass(frozen=True)
class SessionFiles:
    """Folders of the pages and of the features of their documents.

    changed: rows whose features differ from the first row of their document.
    """

    log: str
    features: str
    changed: int


def read_sessions(
    x: Any,
    label: Any,
    *,
    group: Any = None,
    qid: Any = None,
    position: Any = None,
    query: Any = None,
    doc: Any = None,
    segment: Any = None,
    labels: bool = False,
    prefix: str = "",
) -> Sessions:
    """Check the arguments of `fit` and return their rows, sorted by session and position.

    labels: whether `label` has golden labels instead of clicks. prefix: of the arguments' names.
    """
    features = feature_rows(x, f"{prefix}X" if not prefix else f"{prefix}set")
    rows = features.rows
    if label is None:
        raise UserError("requires y to be passed, but the target y is None: give a click per row")
    label = to_numbers(label, f"{prefix}clicks", rows).astype(float)
    _check_labels(label, f"{prefix}clicks", labels)
    number = _sessions(group, qid, rows, prefix)
    places = _positions(position, number, f"{prefix}position")
    session, order = by_session(number, places)
    ids = {
        "query": None if query is None else to_texts(query, f"{prefix}query", rows),
        "document": None if doc is None else to_texts(doc, f"{prefix}doc", rows),
        "segment": None
        if segment is None
        else to_texts(segment, f"{prefix}segment", rows, nulls=True),
    }
    take = pa.array(order)
    chosen = {n: None if column is None else column.take(take) for n, column in ids.items()}
    shown = ShownRows(
        session, order, places[order], label[order], features.hashes()[order], **chosen
    )
    return Sessions(features, shown)


def write_sessions(
    work: Workspace, sessions: Sessions, *, max_position: int, golden: bool
) -> SessionFiles:
    """Write the pages of sessions and the features of their documents.

    golden: whether labels are golden labels.
    """
    pages, documents = split_rows(sessions.shown, max_position)
    log = work.folder / "log"
    folder = log / f"dt={DATE}"
    folder.mkdir(parents=True)
    schema = pa.schema([f for f in page_schema if f.name not in _UNKNOWN])
    with pq.ParquetWriter(folder / "part-00000.parquet", schema, compression="lz4") as writer:
        for batch in pages:
            writer.write_batch(batch.select(schema.names).cast(schema), ROW_GROUP)
    names = documents.names
    if not golden:
        at = names.schema.get_field_index("label")
        names = names.set_column(at, "label", pa.nulls(names.num_rows, pa.int32()))
    features = work.folder / "features"
    features.mkdir()
    with pq.ParquetWriter(
        features / "part-00000.parquet", features_schema, compression="lz4"
    ) as writer:
        for start in range(0, names.num_rows, ROW_GROUP):
            rows = names.slice(start, ROW_GROUP)
            matrix = sessions.features.take(documents.row[start : start + ROW_GROUP])
            column = list_array(np.full(len(matrix), matrix.shape[1]), pa.array(matrix.reshape(-1)))
            table = rows.append_column("features", column).select(features_schema.names)
            writer.write_table(table.cast(features_schema))
    return SessionFiles(str(log), str(features), documents.changed)


def _check_labels(label: np.ndarray, name: str, labels: bool) -> None:
    if labels:
        if (label < 0).any() or (label != np.rint(label)).any():
            raise UserError(f"{name}: golden labels are integers from 0 for method='labels'")
    elif not np.isin(label, (0, 1)).all():
        wrong = label[~np.isin(label, (0, 1))][0]
        raise UserError(
            f"{name} contains {wrong:g}; a click is 0 or 1 (method='labels' takes golden labels)"
        )


def _sessions(group: Any, qid: Any, rows: int, prefix: str) -> np.ndarray:
    """Return the number of the session of each row, int64."""
    if (group is None) == (qid is None):
        raise UserError(
            f"give either {prefix}group, the number of rows of each session in order (as "
            f"LGBMRanker), or {prefix}qid, the id of each row's session (as XGBRanker)"
        )
    if qid is not None:
        column = to_column(qid, f"{prefix}qid", rows)
        if column.null_count:
            raise UserError(f"{prefix}qid has {column.null_count:,} null values")
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        codes: np.ndarray = column.indices.to_numpy().astype(np.int64)
        return codes
    sizes = np.asarray(group.to_numpy() if hasattr(group, "to_numpy") else group)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise UserError(f"{prefix}group: expected the number of rows of each session, from 1")
    if sizes.sum() != rows:
        hint = "; give ids of sessions as qid" if sizes.size == rows else ""
        raise UserError(
            f"{prefix}group adds up to {sizes.sum():,} rows, and there are {rows:,}{hint}"
        )
    return np.repeat(np.arange(sizes.size), sizes)


def _positions(position: Any, session: np.ndarray, name: str) -> np.ndarray:
    """Return the position of each row (int64); without positions, the order of the rows."""
    if position is not None:
        places = to_numbers(position, name, session.size)
        whole = places.astype(np.int64)
        if (whole != places).any():
            raise UserError(f"{name} contains {places[whole != places][0]}; expected integers")
        if whole.min(initial=1) < 1:
            raise UserError(
                f"{name} contains {whole.min()}; positions begin at 1, the top (add 1 to positions "
                "that begin at 0)"
            )
        return whole
    order = np.argsort(session, kind="stable")
    within = np.empty(session.size, np.int64)
    within[order] = Ragged.from_lengths(np.bincount(session)).within()
    return within + 1
