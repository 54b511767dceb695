"""The exposures of documents on Spark, for the estimators that need all pages of a window.

Spark hands out files; a task reads the columns it needs with pyarrow, which is faster than moving
lists out of the JVM, and counts with numba. `files` are paths on the filesystem of `url`. Groups
need not be merged over dates, because counts add.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ulr.engine.session import spark_schema
from ulr.engine.spark_versions import to_arrow
from ulr.engine.tasks import Batches, map_batches, map_items
from ulr.errors import InvalidData
from ulr.features.layout import day_field
from ulr.features.matrix import feature_matrix
from ulr.features.source import FeatureSource, Rows, map_features
from ulr.kernels.within_rankings import RankingSums
from ulr.propensity import tally
from ulr.propensity.daily.arms import ArmTally, sum_counts
from ulr.propensity.daily.tally import tally_arms
from ulr.propensity.daily.tasks import DRIVER_BYTES
from ulr.propensity.document_pairs import REST, UNIT, pair_sums
from ulr.propensity.exposures import Exposures
from ulr.propensity.rankings import RankingTally, sum_rankings
from ulr.propensity.schema import (
    HARVEST_SUMS,
    exposures_schema,
    harvest_schema,
    harvest_units_schema,
)
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.schema import features_schema, swap_counts_schema
from ulr.warehouse.storage import Storage

DOCUMENT = ["query_id", "doc_id"]


def count_exposures(
    spark: SparkSession,
    url: str,
    files: Sequence[tuple[int, str]],
    *,
    max_position: int,
    events: Sequence[str] = (),
) -> DataFrame:
    """Return clicks and impressions of each document by day, position, segment and bucket.

    files: the day, a number from 0, and the path. events: that count as clicks; (): any.
    """
    sizes = [file.size for file in Storage(url).stat([path for _, path in files])]
    count = partial(tally.count_exposures, url, max_position=max_position, events=events)
    rows = map_items(spark, files, count, spark_schema(exposures_schema), sizes=sizes)
    return _sum_exposures(rows, "segment", "bucket", *DOCUMENT, "day", "position")


def _sum_exposures(rows: DataFrame, *keys: str) -> DataFrame:
    columns = ("clicks", "impressions")
    return rows.groupBy(*keys).agg(*(F.sum(name).alias(name) for name in columns))


def count_rankings(
    start_spark: Callable[[], SparkSession],
    url: str,
    files: Sequence[str],
    counted: RankingTally,
) -> RankingSums:
    """Return the sums within rankings, counted in this process if the groups are small."""
    sizes = [file.size for file in Storage(url).stat(files)]
    if sum(sizes) <= DRIVER_BYTES:
        return counted.unflat(sum_rankings(files, url=url, tally=counted))
    count = partial(_ranking_rows, url=url, counted=counted)
    rows = map_items(start_spark(), files, count, "at long, value long", sizes=sizes)
    total = to_arrow(rows.groupBy("at").agg(F.sum("value").alias("value")))
    values = counted.flat(counted.empty())
    values[total["at"].to_numpy()] = total["value"].to_numpy()
    return counted.unflat(values)


def _ranking_rows(files: Sequence[str], *, url: str, counted: RankingTally) -> Batches:
    """Yield the sums that are not 0 with their places."""
    values = sum_rankings(files, url=url, tally=counted)
    at = np.flatnonzero(values)
    arrays = [pa.array(at), pa.array(values[at])]
    yield pa.RecordBatch.from_arrays(arrays, names=["at", "value"])


def count_arms(
    start_spark: Callable[[], SparkSession],
    url: str,
    files: Sequence[str],
    *,
    events: Sequence[str],
) -> pa.Table:
    """Return `swap_counts_schema` of some events, in this process if groups are small."""
    sizes = [file.size for file in Storage(url).stat(files)]
    if sum(sizes) <= DRIVER_BYTES:
        return sum_counts([_arm_rows(files, url, events)])
    count = partial(_arm_batches, url=url, events=events)
    rows = map_items(start_spark(), files, count, spark_schema(swap_counts_schema), sizes=sizes)
    return sum_counts([to_arrow(rows).cast(swap_counts_schema)])


def _arm_rows(files: Sequence[str], url: str, events: Sequence[str]) -> pa.Table:
    fs, _ = open_filesystem(url)
    arms = ArmTally()
    for path in files:
        tally_arms(fs, path, arms, events)
    return arms.rows()


def _arm_batches(files: Sequence[str], *, url: str, events: Sequence[str]) -> Batches:
    yield from _arm_rows(files, url, events).to_batches()


def harvest_table(shown: DataFrame, *, blocks: int, weight: str) -> pa.Table:
    """Return position x position counts of documents seen at several positions: `harvest_schema`.

    A document with n impressions at k and m at l is one stratum. Its weight is n m / (n + m) for
    `pooled` (Mantel-Haenszel: a document shown once at l has little weight) and 1 for `document`
    (Agarwal et al. 2019).
    """
    shown = _sum_exposures(shown, "segment", *DOCUMENT, "day", "position")
    document = F.xxhash64("doc_id").alias("document")
    entry = F.struct(document, "day", "position", "clicks", "impressions")
    queries = shown.groupBy("segment", "query_id").agg(F.collect_list(entry).alias("seen"))
    queries = queries.select("segment", _block(blocks), "seen")
    sums = map_batches(
        queries, partial(pair_sums, weight=weight), spark_schema(harvest_units_schema)
    )
    total = sums.groupBy("segment", "block", "k", "l").agg(
        *(
            (F.sum(f"{n}_units") / F.lit(UNIT) + F.sum(f"{n}_rest") / F.lit(UNIT * REST)).alias(n)
            for n in HARVEST_SUMS
        )
    )
    return _sorted(to_arrow(total).cast(harvest_schema), ["segment", "block", "k", "l"])


def em_exposures(
    spark: SparkSession,
    shown: DataFrame,
    *,
    queries: int,
    blocks: int,
    features: FeatureSource | None,
) -> Exposures:
    """Return the exposures of at most `queries` queries, sampled by hash, for regression-EM.

    features: None: documents have no features; by day: those of a document's latest day. Documents
    without a row of features are ignored and counted: the mean in place of their relevance would
    bias theta.
    """
    hashed = F.xxhash64("query_id")
    sampled = shown.select("query_id").distinct().orderBy(hashed).limit(queries)
    rows = shown.join(sampled, on="query_id", how="left_semi")
    rows = _sum_exposures(rows, *DOCUMENT, "position")
    documents = rows.select(*DOCUMENT).distinct()
    if features is not None:
        schema = features_schema.append(day_field) if features.by_day else features_schema
        known = map_features(spark, features, _batches_of, spark_schema(schema))
        latest = F.max_by("features", day_field.name) if features.by_day else F.min("features")
        known = known.groupBy(*DOCUMENT).agg(latest)
        documents = documents.join(known.toDF(*DOCUMENT, "features"), on=DOCUMENT, how="inner")
    table = to_arrow(documents.withColumn("block", _block(blocks)).orderBy(*DOCUMENT))
    if not table.num_rows:
        raise InvalidData(
            f"regression_em: {features.where if features else 'the log'} has no row for any of the "
            "documents shown; give their features, or set regression_em.features=false"
        )
    number = table.select(DOCUMENT).append_column("n", pa.array(np.arange(table.num_rows)))
    every = to_arrow(rows)
    entries = every.join(number, keys=DOCUMENT, join_type="inner")
    ignored = every.join(number, keys=DOCUMENT, join_type="left anti")
    entries = entries.sort_by([("n", "ascending"), ("position", "ascending")])  # order of sums
    return Exposures(
        entries["n"].to_numpy(),
        entries["position"].to_numpy() - 1,
        entries["clicks"].to_numpy().astype(float),
        entries["impressions"].to_numpy().astype(float),
        table["block"].to_numpy(),
        feature_matrix(table) if features is not None else None,
        ignored.group_by(DOCUMENT).aggregate([]).num_rows,
        float(pc.sum(ignored["impressions"]).as_py() or 0),
    )


def _batches_of(rows: Rows) -> Batches:
    for _, table in rows:
        yield from table.to_batches()


def _block(blocks: int) -> Column:
    """Return the block of a query in a jackknife."""
    return F.pmod(F.xxhash64("query_id"), F.lit(blocks)).cast("int").alias("block")


def _sorted(table: pa.Table, keys: list[str]) -> pa.Table:
    """Return the rows sorted by keys, because the driver sums segments in row order."""
    return table.sort_by([(key, "ascending") for key in keys])
