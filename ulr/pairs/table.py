"""Groups and features of complete queries in, rows of the pairs table out. Arrow; no Spark."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ulr.engine.columns import lists
from ulr.errors import InvalidData
from ulr.features.join import Rows, ShownGroups, feature_rows, shown_groups
from ulr.features.matrix import feature_width, take_features
from ulr.groups.histograms import cut_lists
from ulr.kernels.layout import PairLists, WeightedPairs, take_queries
from ulr.pairs.config import PairConfig
from ulr.pairs.groupings import GROUPINGS, drop_documents
from ulr.pairs.health import WeightHealth
from ulr.pairs.prior import co_click_sums, prior_variance
from ulr.pairs.weighting import weigh_histograms, weigh_labels
from ulr.pairs.weights import LABELS, NEEDS_ALL_PAIRS
from ulr.warehouse.schema import pairs_schema


@dataclass(frozen=True)
class PairReport:
    """Counts of a pair table and the health of its weights; reports of partitions add up."""

    counts: Counter[str]
    health: WeightHealth

    def __add__(self, other: PairReport) -> PairReport:
        return PairReport(self.counts + other.counts, self.health + other.health)


@dataclass(frozen=True)
class _Joined:
    """Groups joined with features.

    labels: int32 per row, -1 if unknown. present: bool per row, whether it has features. too_deep:
    shown documents below the last position with known examination.
    """

    shown: ShownGroups
    rows: Rows
    labels: np.ndarray
    present: np.ndarray
    too_deep: int


def build_pair_table(
    groups: pa.Table, features: pa.Table, config: PairConfig
) -> tuple[pa.Table, PairReport]:
    """Return rows of `pairs_schema` for queries whose groups and features are all here.

    Documents shown below the last position with known examination make no pair.
    """
    joined = _join(groups, features, config)
    weighted, health = _weigh(joined, config)
    arrays = _group(joined, weighted, config)
    table = _lay_out(joined, arrays, features)
    return table, PairReport(_count(joined, weighted, arrays), health)


def _join(groups: pa.Table, features: pa.Table, config: PairConfig) -> _Joined:
    too_deep = np.maximum(lists(groups["doc_ids"]).lengths - config.depth, 0)
    shown = shown_groups(cut_lists(groups, config.depth))
    rows = feature_rows(shown, features)
    present = rows.feature_row >= 0
    if config.missing_features == "error" and not present.all():
        first = int(np.argmin(present))
        query = shown.query_ids[int(np.searchsorted(rows.query_rows, first, side="right")) - 1]
        raise InvalidData(
            f"no features for {(~present).sum()} of {present.size} shown documents, such as query "
            f"{query}, document {rows.names[first]}; add them or set pairs.missing_features=drop"
        )
    labels = np.full(present.size, -1, np.int32)
    if "label" in features.column_names:
        known = features["label"].fill_null(-1).to_numpy()
        labels[present] = known[rows.feature_row[present]]
    return _Joined(shown, rows, labels, present, int(too_deep.sum()))


def _weigh(joined: _Joined, config: PairConfig) -> tuple[WeightedPairs, WeightHealth]:
    histograms = joined.shown.histograms
    if config.method == LABELS:
        pairs = weigh_labels(histograms, joined.labels[joined.rows.row_of])
        return pairs, WeightHealth.empty()
    table_of = joined.shown.tables_of(config.segments)
    variance = config.co_click_variance
    if config.psi is not None and variance is None:
        variance = prior_variance(co_click_sums(histograms, table_of, config.psi))
    return weigh_histograms(
        histograms,
        table_of,
        config.tables,
        config.raw,
        all_pairs=config.method in NEEDS_ALL_PAIRS,
        session=config.session_weight,
        psi=config.psi,
        co_click_variance=variance,
    )


def _group(joined: _Joined, weighted: WeightedPairs, config: PairConfig) -> PairLists:
    arrays = GROUPINGS[config.grouping](joined.shown, joined.rows, weighted)
    return drop_documents(arrays, joined.present)


def _with_pairs(arrays: PairLists) -> np.ndarray:
    """Return which queries have a pair: bool."""
    counts: np.ndarray = np.diff(arrays.group_pairs[arrays.query_groups])
    return counts > 0


def _lay_out(joined: _Joined, arrays: PairLists, features: pa.Table) -> pa.Table:
    """Return one row per query that has a pair."""
    rows, chosen = joined.rows, _with_pairs(arrays)
    kept = np.flatnonzero(joined.present)[np.repeat(chosen, np.diff(arrays.query_rows))]
    width = feature_width(features, rows.feature_row[joined.present])
    matrix = take_features(features, rows.feature_row[kept], width)
    labels = joined.labels[kept]
    arrays = take_queries(arrays, chosen)
    docs_at = arrays.group_docs[arrays.query_groups]
    pairs_at = arrays.group_pairs[arrays.query_groups]
    columns = {
        "query_id": joined.shown.query_ids.filter(pa.array(chosen)),
        "doc_ids": _lists(arrays.query_rows, rows.names.take(pa.array(kept))),
        "labels": _lists(arrays.query_rows, pa.array(labels, mask=labels < 0)),
        "features": _lists(arrays.query_rows * width, pa.array(matrix.reshape(-1))),
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


def _count(joined: _Joined, weighted: WeightedPairs, arrays: PairLists) -> Counter[str]:
    weighted_groups = np.diff(weighted.offsets) > 0
    return Counter(
        groups=weighted_groups.size,
        groups_without_pairs=int((~weighted_groups).sum()),
        sessions=int(joined.shown.histograms.patterns.counts.sum()),
        documents=joined.present.size,
        documents_without_features=int((~joined.present).sum()),
        duplicate_features=joined.rows.duplicates,
        documents_too_deep=joined.too_deep,
        queries=arrays.queries,
        queries_without_pairs=int((~_with_pairs(arrays)).sum()),
        pairs=arrays.pairs,
    )
