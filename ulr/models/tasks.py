"""Score features where their files are read; only ids and scores are shuffled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from ulr.engine.columns import whole
from ulr.engine.shuffle import BLOCK, open_table, partition_blocks, unpack
from ulr.engine.spark_versions import repartition_by_part
from ulr.engine.tasks import map_batches, map_items
from ulr.features.files import FeatureFiles, FeaturePart
from ulr.features.matrix import feature_matrix
from ulr.features.reading import read_features
from ulr.groups.histograms import partition_of
from ulr.kernels.layout import Ragged
from ulr.models.booster import load_scorer
from ulr.warehouse.schema import scores_schema
from ulr.warehouse.table_files import TableFiles

Batches = Iterator[pa.RecordBatch]
Scorer = Callable[[np.ndarray], np.ndarray]


class _Model(NamedTuple):
    text: str
    name: str


def write_scores(
    spark: SparkSession,
    features: FeatureFiles,
    model: str,
    name: str,
    *,
    url: str,
    partitions: int,
) -> Counter[str]:
    """Write one file of the table `scores` per partition under `url`; return the counts.

    model: LightGBM text. name: of the model, for messages.
    """
    parts = features.parts()
    score = partial(_score, features=features, names=features.names(), partitions=partitions,
                    model=_Model(model, name))  # fmt: skip
    blocks = map_items(spark, parts, score, BLOCK, sizes=[part.size for part in parts])
    shuffled = repartition_by_part(blocks, partitions, F.col("part"))
    rows = map_batches(shuffled, partial(_write_part, url=url), "rows long, queries long").collect()
    return Counter(rows=sum(r.rows for r in rows), queries=sum(r.queries for r in rows))


def _score(
    parts: list[FeaturePart],
    *,
    features: FeatureFiles,
    names: Sequence[str],
    partitions: int,
    model: _Model,
) -> Batches:
    scorer = load_scorer(model.text, model.name, names)
    for part in parts:
        for table in read_features(features, part, names):
            scored = score_rows(table, scorer)
            yield from partition_blocks("scores", scored, partition_of(scored, partitions))


def _write_part(batches: Batches, *, url: str) -> Batches:
    """Rank and write one partition. Equal input gives equal bytes, so a retry overwrites."""
    blocks = list(unpack(batches))
    if not blocks:
        return
    table = rank_queries(pa.concat_tables(open_table(content) for _, _, content in blocks))
    TableFiles(url).write_table(table, f"part-{blocks[0][0]:05d}.parquet")
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
