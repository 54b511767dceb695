"""Rows of the table `window` in, rows of the table `pairs` out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ulr.errors import InvalidData
from ulr.features.window import Window, load_window, shown_rows
from ulr.kernels.layout import PairLists, WeightedPairs, take_queries
from ulr.kernels.patterns import count_positions
from ulr.kernels.saturation import Saturation
from ulr.pairs.config import PairConfig
from ulr.pairs.effective_size import EffectiveSize, effective_size
from ulr.pairs.gains import sum_clicks
from ulr.pairs.groupings import GROUPINGS, drop_documents
from ulr.pairs.health import WeightHealth
from ulr.pairs.prior import co_click_sums, prior_variance
from ulr.pairs.weighting import weigh_labels, weigh_levels
from ulr.pairs.weightings import column_names
from ulr.pairs.weights import LABELS
from ulr.warehouse.schema import with_weights


@dataclass(frozen=True)
class PairReport:
    """Counts of a pair table and statistics of its weights; reports of partitions add up."""

    counts: Counter[str]
    health: WeightHealth
    size: EffectiveSize

    @classmethod
    def empty(cls) -> PairReport:
        """Return the report of no queries."""
        return cls(Counter(), WeightHealth.empty(), EffectiveSize())

    def __add__(self, other: PairReport) -> PairReport:
        return PairReport(
            self.counts + other.counts, self.health + other.health, self.size + other.size
        )


def build_pair_table(queries: pa.Table, config: PairConfig) -> tuple[pa.Table, PairReport]:
    """Return rows of `pairs_schema`, with the columns of all weightings, of `window_schema` rows.

    If the weights need theta, documents shown below the last position with known examination make
    no pair.
    """
    window = load_window(queries, config.list_depth)
    window, arrays, report = weigh_window(window, config)
    return _lay_out(window, arrays, config), report


def weigh_window(window: Window, config: PairConfig) -> tuple[Window, PairLists, PairReport]:
    """Return the shown documents of a window, and the pairs of all its queries.

    window: its lists are cut at `config.list_depth`.
    """
    window = shown_rows(window)
    config = config.reaching(int(window.histograms.sizes.max(initial=0)))
    if config.missing_features == "error":
        _check_features(window)
    weighted, health = _weigh(window, config)
    arrays = _group(window, weighted, config)
    size = effective_size(_with_effective_clicks(arrays, window, weighted, config))
    return window, arrays, PairReport(_count(window, weighted, arrays), health, size)


def _check_features(window: Window) -> None:
    present = window.feature_row >= 0
    if not present.all():
        first = int(np.argmin(present))
        query = window.query_ids[int(np.searchsorted(window.query_rows, first, side="right")) - 1]
        raise InvalidData(
            f"no features for {(~present).sum()} of {present.size} shown documents, such as query "
            f"{query}, document {window.names[first]}; add them or set pairs.missing_features=drop"
        )


def _weigh(window: Window, config: PairConfig) -> tuple[WeightedPairs, WeightHealth]:
    histograms = window.histograms
    if config.method == LABELS:
        pairs = weigh_labels(histograms, window.labels[window.row_of])
        return pairs, WeightHealth.empty()
    table_of = window.tables_of(config.segments)
    variance = config.co_click_variance
    variances: Sequence[float] | None = None
    if variance is not None:
        variances = variance if isinstance(variance, tuple) else [variance] * len(window.levels)
    elif config.psi is not None:
        sums = [co_click_sums(own, table_of, config.psi) for own in window.levels]
        variances = [prior_variance(own) for own in sums]
    saturated = [weighting.precise for weighting in config.weightings]
    return weigh_levels(
        window.levels,
        config.increments,
        table_of,
        config.tables,
        config.raw,
        all_pairs=config.all_pairs,
        session=config.session_weight,
        psi=config.psi,
        variances=variances or (),
        counts=[weighting.counts for weighting in config.weightings],
        saturated=saturated,
        saturation=_saturation(window, config) if any(saturated) else None,
        stopping=config.stopping,
    )


def _saturation(window: Window, config: PairConfig) -> Saturation:
    groups = window.histograms
    return Saturation(
        query_groups=np.searchsorted(window.query, np.arange(window.queries + 1)).astype(np.int64),
        query_rows=np.asarray(window.query_rows, np.int64),
        row_of=np.asarray(window.row_of, np.int64),
        sessions=count_positions(groups.sizes, groups.patterns)[0].astype(float),
        precision=config.precision,
        n_0=config.saturation,
    )


def _group(
    window: Window, weighted: WeightedPairs, config: PairConfig, power: int = 1
) -> PairLists:
    """Return lists whose clicks count with their gains to a power."""
    clicks = sum_clicks(window.levels, config.increments, power)
    arrays = GROUPINGS[config.grouping](window, weighted, clicks)
    return drop_documents(arrays, window.feature_row >= 0)


def _with_effective_clicks(
    arrays: PairLists, window: Window, weighted: WeightedPairs, config: PairConfig
) -> PairLists:
    """Return lists with the effective number of clicks: (sum of gains)^2 / sum of squared gains."""
    if len(config.increments) == 1:
        return arrays
    squares = _group(window, weighted, config, power=2).clicks
    clicks = np.divide(arrays.clicks**2, squares, out=np.zeros_like(squares), where=squares > 0)
    return arrays._replace(clicks=clicks)


def rows_with_pairs(window: Window, arrays: PairLists) -> tuple[np.ndarray, np.ndarray]:
    """Return the queries that have a pair (bool), and their rows with features (int64)."""
    chosen = _with_pairs(arrays)
    present = np.flatnonzero(window.feature_row >= 0)
    return chosen, present[np.repeat(chosen, np.diff(arrays.query_rows))]


def _with_pairs(arrays: PairLists) -> np.ndarray:
    """Return which queries have a pair: bool."""
    counts: np.ndarray = np.diff(arrays.group_pairs[arrays.query_groups])
    return counts > 0


def _lay_out(window: Window, arrays: PairLists, config: PairConfig) -> pa.Table:
    """Return one row per query that has a pair."""
    chosen, kept = rows_with_pairs(window, arrays)
    matrix = window.matrix[window.feature_row[kept]]
    width, labels = matrix.shape[1], window.labels[kept]
    arrays = take_queries(arrays, chosen)
    docs_at = arrays.group_docs[arrays.query_groups]
    pairs_at = arrays.group_pairs[arrays.query_groups]
    columns = {
        "query_id": window.query_ids.filter(pa.array(chosen)),
        "doc_ids": _lists(arrays.query_rows, window.names.take(pa.array(kept))),
        "labels": _lists(arrays.query_rows, pa.array(labels, mask=labels < 0)),
        "features": _lists(arrays.query_rows * width, pa.array(matrix.reshape(-1))),
        "group_sizes": _lists(arrays.query_groups, np.diff(arrays.group_docs)),
        "doc_rows": _lists(docs_at, arrays.doc_row),
        "positions": _lists(docs_at, arrays.position),
        "pair_counts": _lists(arrays.query_groups, np.diff(arrays.group_pairs)),
        "pair_i": _lists(pairs_at, arrays.i),
        "pair_j": _lists(pairs_at, arrays.j),
        "clicks": _lists(docs_at, arrays.clicks),
    }
    names = column_names(config.weightings)
    for number, (ij, ji) in enumerate(names):
        one = arrays.weighting(number)
        columns |= {ij: _lists(pairs_at, one.u_ij), ji: _lists(pairs_at, one.u_ji)}
    schema = with_weights(name for pair in names[1:] for name in pair)
    return pa.table([columns[f.name] for f in schema], schema=schema)


def _lists(offsets: np.ndarray, values: pa.Array | np.ndarray) -> pa.Array:
    if isinstance(values, np.ndarray):
        values = pa.array(values.astype(np.int32) if values.dtype == np.int64 else values)
    return pa.ListArray.from_arrays(offsets.astype(np.int32), values)


def _count(window: Window, weighted: WeightedPairs, arrays: PairLists) -> Counter[str]:
    weighted_groups = np.diff(weighted.offsets) > 0
    return Counter(
        groups=weighted_groups.size,
        groups_without_pairs=int((~weighted_groups).sum()),
        sessions=int(window.histograms.patterns.counts.sum()),
        documents=window.feature_row.size,
        documents_without_features=int((window.feature_row < 0).sum()),
        duplicate_features=window.duplicates,
        documents_too_deep=window.too_deep,
        queries=arrays.queries,
        queries_without_pairs=int((~_with_pairs(arrays)).sum()),
        pairs=arrays.pairs,
    )
