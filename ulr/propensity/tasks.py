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
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ulr.engine.session import spark_schema
from ulr.engine.spark_versions import to_arrow
from ulr.engine.tasks import Batches, map_items
from ulr.errors import InvalidData
from ulr.features.matrix import feature_matrix
from ulr.kernels.within_rankings import RankingSums
from ulr.propensity import tally
from ulr.propensity.daily.tasks import DRIVER_BYTES
from ulr.propensity.exposures import Exposures
from ulr.propensity.rankings import RankingTally, sum_rankings
from ulr.propensity.schema import exposures_schema, harvest_schema
from ulr.warehouse.storage import Storage

DOCUMENT = ["query_id", "doc_id"]


def count_exposures(
    spark: SparkSession, url: str, files: Sequence[str], *, max_position: int
) -> DataFrame:
    """Return clicks and impressions of each document by position, segment and bucket."""
    sizes = [file.size for file in Storage(url).stat(files)]
    count = partial(tally.count_exposures, url, max_position=max_position)
    rows = map_items(spark, files, count, spark_schema(exposures_schema), sizes=sizes)
    return _sum_exposures(rows, "segment", "bucket", *DOCUMENT, "position")


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


def harvest_table(shown: DataFrame, *, blocks: int, weight: str) -> pa.Table:
    """Return position x position counts of documents seen at several positions: `harvest_schema`.

    A document with n impressions at k and m at l is one stratum. Its weight is n m / (n + m) for
    `pooled` (Mantel-Haenszel: a document shown once at l has little weight) and 1 for `document`
    (Agarwal et al. 2019).
    """
    keys = ["segment", *DOCUMENT]
    seen = F.collect_list(F.struct("position", "clicks", "impressions")).alias("seen")
    moved = _sum_exposures(shown, *keys, "position").groupBy(*keys).agg(seen)
    moved = moved.where(F.size("seen") > 1)
    one = moved.select("segment", _block(blocks), "seen", F.explode("seen").alias("a"))
    two = one.select("segment", "block", "a", F.explode("seen").alias("b"))
    n, m = F.col("a.impressions"), F.col("b.impressions")
    stratum = n * m / (n + m) if weight == "pooled" else F.lit(1.0)
    pairs = two.where("a.position != b.position").select(
        "segment",
        "block",
        F.col("a.position").alias("k"),
        F.col("b.position").alias("l"),
        (stratum * F.col("a.clicks") / n).alias("clicks"),
        stratum.alias("impressions"),
    )
    total = pairs.groupBy("segment", "block", "k", "l").agg(
        _exact_sum(F.col("clicks")).alias("clicks"),
        _exact_sum(F.col("impressions")).alias("impressions"),
        F.count("*").alias("documents"),
    )
    return _sorted(to_arrow(total).cast(harvest_schema), ["segment", "block", "k", "l"])


def em_exposures(
    spark: SparkSession, shown: DataFrame, *, queries: int, blocks: int, features: str | None
) -> Exposures:
    """Return the exposures of at most `queries` queries, sampled by hash, for regression-EM.

    features: URL of a features table; without one, documents have no features.
    """
    hashed = F.xxhash64("query_id")
    sampled = shown.select("query_id").distinct().orderBy(hashed).limit(queries)
    rows = shown.join(sampled, on="query_id", how="left_semi")
    rows = _sum_exposures(rows, *DOCUMENT, "position")
    documents = rows.select(*DOCUMENT).distinct()
    if features:
        known = spark.read.parquet(features).groupBy(*DOCUMENT).agg(F.min("features"))
        documents = documents.join(known.toDF(*DOCUMENT, "features"), on=DOCUMENT, how="inner")
    table = to_arrow(documents.withColumn("block", _block(blocks)).orderBy(*DOCUMENT))
    if not table.num_rows:
        raise InvalidData(
            f"regression_em.features: {features} has no row for any of the documents shown"
        )
    number = table.select(DOCUMENT).append_column("n", pa.array(np.arange(table.num_rows)))
    entries = to_arrow(rows).join(number, keys=DOCUMENT, join_type="inner")
    entries = entries.sort_by([("n", "ascending"), ("position", "ascending")])  # order of sums
    return Exposures(
        entries["n"].to_numpy(),
        entries["position"].to_numpy() - 1,
        entries["clicks"].to_numpy().astype(float),
        entries["impressions"].to_numpy().astype(float),
        table["block"].to_numpy(),
        feature_matrix(table) if features else None,
    )


def _block(blocks: int) -> Column:
    """Return the block of a query in a jackknife."""
    return F.pmod(F.xxhash64("query_id"), F.lit(blocks)).cast("int").alias("block")


def _exact_sum(x: Column) -> Column:
    """Return a sum whose last bits do not depend on the order of rows, by adding integers.

    x is split into units of 2^-20 and a rest in units of 2^-56.
    """
    units = F.floor(x * F.lit(2.0**20))
    rest = F.round((x * F.lit(2.0**20) - units) * F.lit(2.0**36)).cast("long")
    return F.sum(units) / F.lit(2.0**20) + F.sum(rest) / F.lit(2.0**56)


def _sorted(table: pa.Table, keys: list[str]) -> pa.Table:
    """Return the rows sorted by keys, because the driver sums segments in row order."""
    return table.sort_by([(key, "ascending") for key in keys])
