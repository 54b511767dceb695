"""Score features where their files are read; only ids and scores are shuffled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ulr.engine.blocks import open_table, partition_blocks
from ulr.engine.columns import whole
from ulr.engine.interface import Batches, Blocks, Engine, Exchange
from ulr.features.matrix import feature_matrix
from ulr.features.source import FeatureSource, Rows, feature_rows
from ulr.groups.histograms import partition_of
from ulr.kernels.layout import Ragged
from ulr.models.booster import load_scorer
from ulr.warehouse.schema import scores_schema
from ulr.warehouse.table_files import TableFiles

Scorer = Callable[[np.ndarray], np.ndarray]


class _Model(NamedTuple):
    text: str
    name: str


def write_scores(
    engine: Engine,
    features: FeatureSource,
    model: str,
    name: str,
    *,
    url: str,
    partitions: int,
) -> Counter[str]:
    """Write one file of the table `scores` per partition under `url`; return the counts.

    model: LightGBM text. name: of the model, for messages.
    """
    score = partial(_score, names=features.names(), partitions=partitions,
                    model=_Model(model, name))  # fmt: skip
    blocks = Exchange([feature_rows(features, score)], partitions)
    counts = [batch.to_pylist()[0] for batch in engine.map(blocks, partial(_write_part, url=url))]
    return Counter({name: sum(own[name] for own in counts) for name in ("rows", "queries")})


def _score(rows: Rows, *, names: Sequence[str], partitions: int, model: _Model) -> Blocks:
    scorer = load_scorer(model.text, model.name, names)
    for _, table in rows:
        scored = score_rows(table, scorer)
        yield from partition_blocks("scores", scored, partition_of(scored, partitions))


def _write_part(blocks: Blocks, *, url: str) -> Batches:
    """Rank and write one partition. Equal input gives equal bytes, so a retry overwrites."""
    own = list(blocks)
    table = rank_queries(pa.concat_tables(open_table(content) for _, _, content in own))
    TableFiles(url).write_table(table, f"part-{own[0][0]:05d}.parquet")
    queries = int((np.asarray(table["rank"]) == 1).sum())
    yield pa.RecordBatch.from_pydict({"rows": [table.num_rows], "queries": [queries]})


def score_rows(features: pa.Table, scorer: Scorer) -> pa.Table:
    """Return query_id, doc_id and score of each row."""
    scores = scorer(feature_matrix(features)) if features.num_rows else np.zeros(0)
    columns = [features["query_id"], features["doc_id"], pa.array(scores, pa.float64())]
    return pa.table(columns, names=["query_id", "doc_id", "score"])


def rank_queries(scored: pa.Table) -> pa.Table:
    """Return the rows of the table `scores`, for queries that are present as a whole."""
    # Equal scores are sorted by document, so that the order of the files does not matter.
    order = [("query_id", "ascending"), ("score", "descending"), ("doc_id", "ascending")]
    table = scored.sort_by(order).combine_chunks()
    documents = np.bincount(whole(table["query_id"]).dictionary_encode().indices)
    rank = Ragged.from_lengths(documents).within() + 1
    columns = [table["query_id"], table["doc_id"], pa.array(rank, pa.int32()), table["score"]]
    return pa.table(columns, schema=scores_schema)
