"""Groups and features of whole queries in, rows of the pairs table out. Arrow in, Arrow out; no
Spark. The weights are given as tables over positions, so nothing here knows a method by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from ulr.engine.columns import lists
from ulr.errors import InvalidData, UserError
from ulr.features.join import (
    Rows,
    ShownGroups,
    feature_rows,
    shown_groups,
)
from ulr.features.matrix import feature_width, take_features
from ulr.groups.histograms import cut_lists
from ulr.kernels.layout import PairLists, WeightedPairs, take_queries
from ulr.pairs.groupings import by_query, by_ranking, drop_documents
from ulr.pairs.health import WeightHealth
from ulr.pairs.prior import co_click_sums, prior_variance
from ulr.pairs.weighting import weigh_histograms, weigh_labels
from ulr.pairs.weights import LABELS, NEEDS_ALL_PAIRS, weight_table
from ulr.propensity.examination import Examination
from ulr.warehouse.schema import pairs_schema

GROUPINGS = {"ranking": by_ranking, "query": by_query}
MISSING = ("drop", "error")


@dataclass(frozen=True)
class PairConfig:
    """How pairs are made: a method's tables (segments x 4 x K x K), and which segment has which.

    `segments` maps a segment's name to its table; every other segment uses table 0.
    """

    method: str
    tables: np.ndarray
    raw: np.ndarray
    segments: Mapping[str, int] = field(default_factory=dict)
    grouping: str = "ranking"
    session_weight: str = "none"
    missing_features: str = "drop"
    psi: np.ndarray | None = None
    co_click_variance: float | None = None


@dataclass(frozen=True)
class PairReport:
    """What was counted on the way; reports of partitions add up."""

    counts: Counter[str]
    health: WeightHealth

    def __add__(self, other: PairReport) -> PairReport:
        """Both."""
        return PairReport(self.counts + other.counts, self.health + other.health)


def make_pair_config(
    method: str,
    given: Examination,
    by_segment: Mapping[str, Examination] | None = None,
    *,
    prs_clip: float = np.inf,
    propensity_floor: float = 0.0,
    weight_cap: float = np.inf,
    grouping: str = "ranking",
    session_weight: str = "none",
    missing_features: str = "drop",
    co_click_variance: float | None = None,
) -> PairConfig:
    """Turn propensities into weight tables; a segment without its own uses the pooled ones.

    co_click_variance concerns `joint` alone: how far the relevance of two documents may be from
    independent, before their co-clicks have shown it; None: what the log's co-clicks tell.
    """
    for name, value, allowed in (
        ("grouping", grouping, tuple(GROUPINGS)),
        ("missing_features", missing_features, MISSING),
    ):
        if value not in allowed:
            raise UserError(f"{name} = {value!r}: expected one of {', '.join(allowed)}")
    if method == "unbiased-lambdamart" and grouping == "query":
        raise UserError(
            "method unbiased-lambdamart needs positions: use pairs.grouping=ranking with it"
        )
    segments = by_segment or {}
    _check_lengths(given, segments)
    weighting = "naive" if method == LABELS else method
    clip = {"propensity_floor": propensity_floor, "weight_cap": weight_cap, "prs_clip": prs_clip}
    every = [given, *segments.values()]
    tiny = min(propensity_floor, 1e-9)  # a propensity of 0 can be floored, but not divided by
    return PairConfig(
        method=method,
        tables=np.stack([weight_table(weighting, p, **clip) for p in every]),
        raw=np.stack([weight_table(weighting, p, propensity_floor=tiny) for p in every]),
        segments={name: n + 1 for n, name in enumerate(segments)},
        grouping=grouping,
        session_weight=session_weight,
        missing_features=missing_features,
        psi=np.stack([np.maximum(p.psi, tiny) for p in every]) if method == "joint" else None,
        co_click_variance=co_click_variance,
    )


def _check_lengths(given: Examination, segments: Mapping[str, Examination]) -> None:
    for name, own in segments.items():
        if own.theta.size != given.theta.size:
            raise UserError(
                f"segment {name} has propensities for {own.theta.size} positions, the pooled ones "
                f"for {given.theta.size}; estimate both to the same depth"
            )


def build_pair_table(
    groups: pa.Table, features: pa.Table, pair_config: PairConfig
) -> tuple[pa.Table, PairReport]:
    """Rows of the pairs table for queries that are here with all their groups and features.

    Documents shown below the last position whose propensity is known make no pair.
    """
    known = pair_config.tables.shape[-1]
    deep = (
        np.maximum(lists(groups["doc_ids"]).lengths - known, 0) if groups.num_rows else np.zeros(1)
    )
    shown = shown_groups(cut_lists(groups, known) if deep.any() else groups)
    rows = feature_rows(shown, features)
    labels = _labels(features, rows.feature_row)
    weighted, health = _weigh(shown, rows, labels, pair_config)
    with_pairs = np.diff(weighted.offsets) > 0
    present = rows.feature_row >= 0
    if not present.all():
        _refuse_missing(shown, rows, pair_config)
    arrays = GROUPINGS[pair_config.grouping](shown, rows, weighted)
    arrays = drop_documents(arrays, present)
    paired = np.diff(arrays.group_pairs[arrays.query_groups]) > 0
    kept_rows = np.flatnonzero(present)[np.repeat(paired, np.diff(arrays.query_rows))]
    counts = Counter(
        groups=with_pairs.size,
        groups_without_pairs=int((~with_pairs).sum()),
        sessions=int(shown.histograms.patterns.counts.sum()),
        documents=present.size,
        documents_without_features=int((~present).sum()),
        duplicate_features=rows.duplicates,
        documents_too_deep=int(deep.sum()),
        queries=arrays.queries,
        queries_without_pairs=int((~paired).sum()),
        pairs=arrays.pairs,
    )
    names = rows.names.take(pa.array(kept_rows))
    width = feature_width(features, rows.feature_row[present])
    matrix = take_features(features, rows.feature_row[kept_rows], width)
    query_ids = shown.query_ids.filter(pa.array(paired))
    table = _as_table(take_queries(arrays, paired), query_ids, names, labels[kept_rows], matrix)
    return table, PairReport(counts, health)


def _weigh(
    shown: ShownGroups, rows: Rows, labels: np.ndarray, pair_config: PairConfig
) -> tuple[WeightedPairs, WeightHealth]:
    if pair_config.method == LABELS:
        pairs = weigh_labels(shown.histograms, labels[rows.row_of])
        return pairs, WeightHealth(*np.zeros((4, 1)))
    table_of = shown.tables_of(pair_config.segments)
    variance = pair_config.co_click_variance
    if pair_config.psi is not None and variance is None:
        variance = prior_variance(co_click_sums(shown.histograms, table_of, pair_config.psi))
    return weigh_histograms(
        shown.histograms,
        table_of,
        pair_config.tables,
        pair_config.raw,
        all_pairs=pair_config.method in NEEDS_ALL_PAIRS,
        session=pair_config.session_weight,
        psi=pair_config.psi,
        co_click_variance=variance,
    )


def _labels(features: pa.Table, feature_row: np.ndarray) -> np.ndarray:
    """Golden label of every row, -1 where unknown."""
    labels = np.full(feature_row.size, -1, np.int32)
    if features.num_rows and "label" in features.column_names:
        known = features["label"].fill_null(-1).to_numpy().astype(np.int32)
        labels = np.where(feature_row >= 0, known[feature_row], -1).astype(np.int32)
    return labels


def _refuse_missing(shown: ShownGroups, rows: Rows, pair_config: PairConfig) -> None:
    """Stop, if the setting says so, with the first document that has no features."""
    if pair_config.missing_features == "drop":
        return
    gone = np.flatnonzero(rows.feature_row < 0)
    query = shown.query_ids[int(np.searchsorted(rows.query_rows, gone[0], side="right")) - 1]
    raise InvalidData(
        f"no features for {gone.size} of {rows.feature_row.size} shown documents, such as query "
        f"{query}, document {rows.names[int(gone[0])]}; add them or set "
        "pairs.missing_features=drop"
    )


def _as_table(
    arrays: PairLists, query_ids: pa.Array, names: pa.Array, labels: np.ndarray,
    matrix: np.ndarray,
) -> pa.Table:  # fmt: skip
    """One row per query."""
    docs_at = arrays.group_docs[arrays.query_groups]
    pairs_at = arrays.group_pairs[arrays.query_groups]
    columns = {
        "query_id": query_ids,
        "doc_ids": _lists(arrays.query_rows, names),
        "labels": _lists(arrays.query_rows, pa.array(labels, mask=labels < 0)),
        "features": _lists(arrays.query_rows * matrix.shape[1], pa.array(matrix.reshape(-1))),
        "group_sizes": _lists(arrays.query_groups, np.diff(arrays.group_docs)),
        "doc_rows": _lists(docs_at, arrays.doc_row),
        "positions": _lists(docs_at, arrays.position),
        "pair_counts": _lists(arrays.query_groups, np.diff(arrays.group_pairs)),
        "pair_i": _lists(pairs_at, arrays.i),
        "pair_j": _lists(pairs_at, arrays.j),
        "u_ij": _lists(pairs_at, arrays.u_ij),
        "u_ji": _lists(pairs_at, arrays.u_ji),
    }
    return pa.table([columns[f.name] for f in pairs_schema], schema=pairs_schema)


def _lists(offsets: np.ndarray, values: pa.Array | np.ndarray) -> pa.Array:
    if isinstance(values, np.ndarray):
        values = pa.array(values.astype(np.int32) if values.dtype == np.int64 else values)
    return pa.ListArray.from_arrays(offsets.astype(np.int32), values)
