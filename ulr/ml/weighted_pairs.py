"""Files of pairs whose weights the user gives, one per row, such as 1 / theta of a click."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ulr.engine.interface import Batches
from ulr.engine.spark.session import spark_schema
from ulr.engine.spark.tasks import map_batches
from ulr.ml.lists import build_lists, split_at_lists
from ulr.warehouse.schema import pairs_schema
from ulr.warehouse.storage import Storage

_ROW_GROUP_BYTES = 8 << 20  # a worker of training reads the row groups that have queries of it


def write_weighted_pairs(rows: DataFrame, url: str) -> list[str]:
    """Write the pairs of rows with list_id, position, label, weight and features; return the files.

    Every list is a query of its own.
    """
    # Without positionCol all positions are equal: sort by content to fix the order.
    content = F.xxhash64("label", "weight", "features")
    lists = rows.repartition("list_id").sortWithinPartitions("list_id", "position", content)
    pairs = map_batches(lists, _build_pairs, spark_schema(pairs_schema))
    write = pairs.write.mode("overwrite").option("parquet.block.size", _ROW_GROUP_BYTES)
    write.parquet(url)
    folder = Storage(url)
    return [folder.path(file.path) for file in folder.files()]


def _build_pairs(batches: Batches) -> Batches:
    for table in split_at_lists(batches):
        yield from build_lists(table).to_batches()
