from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from ulr.engine.spark.versions import arrow_udf, repartition_by_part, to_arrow


@pytest.mark.parametrize("partitions", [1, 2, 7, 300])
def test_every_part_is_the_partition_of_its_number(spark, partitions):
    rows = spark.range(0, 1000, 1, 3).withColumn("part", (F.col("id") * 7) % partitions)
    placed = repartition_by_part(rows, partitions, F.col("part"))
    assert placed.rdd.getNumPartitions() == partitions
    table = to_arrow(placed.withColumn("partition", F.spark_partition_id()))
    assert table.num_rows == 1000
    assert (table["part"].to_numpy() == table["partition"].to_numpy()).all()


def test_rows_and_an_empty_frame_become_arrow_tables_of_the_same_schema(spark):
    rows = spark.sql("select id, array(cast(id as float)) as features from range(3)")
    table = to_arrow(rows)
    assert table["features"].to_pylist() == [[0.0], [1.0], [2.0]]
    assert to_arrow(rows.where("id > 5")).schema.names == table.schema.names


def test_a_function_of_arrow_arrays_becomes_a_function_of_columns(spark):
    def lengths(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for batch in batches:
            yield pa.array([len(x) for x in batch.to_pylist()], pa.float64())

    rows = spark.sql("select id, sequence(0, id) as items from range(5)")
    lists = rows.withColumn("length", arrow_udf(lengths, "double")(F.col("items")))
    table = to_arrow(lists.select("id", "length"))
    assert np.array_equal(table["length"].to_numpy(), table["id"].to_numpy() + 1.0)
