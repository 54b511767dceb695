"""A small pair table for the tests of training, in one piece and in shards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from tests.support.pair_samples import one_list_per_query
from ulr.kernels.layout import WeightedPairs
from ulr.training.data import WEIGHTS, RankingData, split_queries
from ulr.warehouse.schema import pairs_schema
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

DOCS, WIDTH = 8, 6


def clicked_data(queries: int = 60, seed: int = 3) -> RankingData:
    """One list per query. Clicks depend on the first two features and on the position.

    The traffic of queries differs by a factor of 1,000, so some rows weigh less than a rounding.
    """
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(queries * DOCS, WIDTH)).astype(np.float32)
    x[rng.random(x.shape) < 0.05] = np.nan
    utility = np.nan_to_num(x[:, 0]) + 0.5 * np.nan_to_num(x[:, 1]) ** 2
    i, j = (np.tile(k, queries).astype(np.int32) for k in np.triu_indices(DOCS, 1))
    per_query = DOCS * (DOCS - 1) // 2
    at = np.repeat(np.arange(queries) * DOCS, per_query)
    traffic = 0.3 * 1000 ** np.repeat(rng.random(queries), per_query)
    weight = (rng.poisson(traffic * np.exp(utility[at + place] - place / 4)) for place in (i, j))
    u_ij, u_ji = (w.astype(np.float32) for w in weight)
    clicks = rng.poisson(np.repeat(traffic[::per_query], DOCS) * np.exp(utility) / 4)
    offsets = np.arange(queries + 1) * per_query
    weighted = WeightedPairs(offsets, i, j, u_ij, u_ji)
    pairs = one_list_per_query(DOCS, weighted, clicks.astype(np.float32))
    labels = np.clip(np.rint(utility), 0, 3).astype(np.int32)
    return RankingData(pa.array([f"q{n}" for n in range(queries)]), x, labels, pairs)


def with_even_queries(data: RankingData) -> RankingData:
    """The data with the same total weight of every query, so that all of them count."""
    pairs = data.pairs
    of_query = np.repeat(np.arange(pairs.queries), np.diff(pairs.group_pairs[pairs.query_groups]))
    total = np.bincount(of_query, pairs.u_ij + pairs.u_ji, pairs.queries)[of_query]
    u_ij, u_ji = ((100 * u / total).astype(np.float32) for u in (pairs.u_ij, pairs.u_ji))
    return replace(data, pairs=pairs._replace(u_ij=u_ij, u_ji=u_ji))


def share(data: RankingData, rank: int, size: int) -> RankingData:
    """The queries of one worker: every size-th query."""
    return split_queries(data, np.arange(data.pairs.queries) % size == rank)


def as_table(data: RankingData) -> pa.Table:
    """The rows of the pairs table."""
    p, width = data.pairs, data.features.shape[1]
    docs_at, pairs_at = p.group_docs[p.query_groups], p.group_pairs[p.query_groups]

    def lists(offsets: np.ndarray, values: np.ndarray | pa.Array) -> pa.Array:
        values = values.astype(np.int32) if values.dtype == np.int64 else values
        return pa.ListArray.from_arrays(offsets.astype(np.int32), pa.array(values))

    names = np.array([f"d{n}" for n in range(p.rows)])
    columns = {
        "query_id": data.query_ids,
        "doc_ids": lists(p.query_rows, names),
        "labels": lists(p.query_rows, data.labels),
        "features": lists(p.query_rows * width, data.features.reshape(-1)),
        "group_sizes": lists(p.query_groups, np.diff(p.group_docs)),
        "doc_rows": lists(docs_at, p.doc_row),
        "positions": lists(docs_at, p.position),
        "pair_counts": lists(p.query_groups, np.diff(p.group_pairs)),
        "pair_i": lists(pairs_at, p.i),
        "pair_j": lists(pairs_at, p.j),
        "u_ij": lists(pairs_at, p.u_ij),
        "u_ji": lists(pairs_at, p.u_ji),
        "clicks": lists(docs_at, p.clicks),
    }
    return pa.table([columns[f.name] for f in pairs_schema], schema=pairs_schema)


def publish_pairs(folder: Path) -> None:
    """A small pairs table, in three files, where `ulr train` looks for it."""
    warehouse = Warehouse(str(folder / "data" / "warehouse"))
    table = as_table(clicked_data(70))
    for name in WEIGHTS:  # validated with the same weights
        table = table.append_column(f"{name}_validation", table[name])
    with warehouse.writing("pairs", "method=joint", "made-for-a-test") as draft:
        for n, start in enumerate(range(0, 70, 25)):
            Storage(draft.url).write_table(table.slice(start, 25), f"part-{n:05d}.parquet")
        draft.publish({"queries": 70})
