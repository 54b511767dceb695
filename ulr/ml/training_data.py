"""Sessions as arrays to the data of training: groups, window, weighted pairs. No Spark."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from ulr.errors import UserError
from ulr.features.join import join_rows
from ulr.features.split import in_split, sample_queries
from ulr.features.window import load_window
from ulr.kernels.layout import Ragged, take_queries
from ulr.ml.feature_rows import FeatureRows, feature_rows
from ulr.ml.frames import to_column, to_numbers, to_texts
from ulr.ml.shown import ShownRows, by_session, shown_groups
from ulr.pairs.config import PairConfig
from ulr.pairs.table import rows_with_pairs, weigh_window
from ulr.pairs.weightings import training_columns
from ulr.pairs.weights import LABELS
from ulr.training.data import RankingData, split_queries


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
class TrainingPairs:
    """The data of all queries that have a pair, with the weights of every weighting.

    changed: rows whose features differ from the first row of their document.
    """

    data: RankingData
    method: str
    click_model: str
    changed: int

    def training(self, chosen: np.ndarray | None = None) -> RankingData:
        """Return the queries (bool per query, None: all) with the weights to train on."""
        return self._select(slice(0, len(training_columns(self.method, self.click_model))), chosen)

    def validation(self, chosen: np.ndarray | None = None) -> RankingData:
        """Return the queries with the weights of the validation loss."""
        return self._select(slice(-1, None), chosen)

    def held_out(self, fraction: float) -> np.ndarray:
        """Return which queries are held out for validation, bool."""
        return sample_queries(self.data.query_ids, fraction, "validation")

    def _select(self, weightings: slice, chosen: np.ndarray | None) -> RankingData:
        pairs = self.data.pairs
        if pairs.u_ij.ndim == 2:
            u_ij, u_ji = (np.ascontiguousarray(u[:, weightings]) for u in (pairs.u_ij, pairs.u_ji))
            if u_ij.shape[1] == 1:
                u_ij, u_ji = u_ij[:, 0], u_ji[:, 0]
            pairs = pairs._replace(u_ij=u_ij, u_ji=u_ji)
        data = replace(self.data, pairs=pairs)
        return data if chosen is None else split_queries(data, chosen)


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


def training_pairs(
    sessions: Sessions, config: PairConfig, *, max_position: int, test_fraction: float = 0.0
) -> TrainingPairs:
    """Return the weighted pairs of all queries but a fraction, held out by hash of the id."""
    shown = shown_groups(sessions.shown, max_position)
    groups = shown.groups
    if test_fraction:
        train = in_split(groups["query_id"], test_fraction, "train")
        groups = groups.filter(pa.array(train))
    names = shown.names
    if config.method != LABELS:
        nothing = pa.nulls(names.num_rows, pa.int32())
        names = names.set_column(names.schema.get_field_index("label"), "label", nothing)
    table, rows = join_rows(groups, names)
    window, lists, _ = weigh_window(load_window(table, config.list_depth), config)
    chosen, kept = rows_with_pairs(window, lists)
    if not chosen.any():
        raise UserError(
            "no session has a pair: every session needs a clicked document and another one; "
            "check clicks and group"
        )
    first = shown.row[rows[window.feature_row[kept]]]
    data = RankingData(
        window.query_ids.filter(pa.array(chosen)),
        sessions.features.take(first),
        window.labels[kept],
        take_queries(lists, chosen),
    )
    return TrainingPairs(data, config.method, config.click_model, shown.changed)


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
