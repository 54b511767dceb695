"""The cluster behind a session: properties, cores, task slots, and cancelling the jobs of a block.

A classic session has the context of the JVM. A session of Spark Connect has none: what the context
knows comes from the session's properties or from a small job.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Iterator
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

_MANY_ROWS = 1 << 16  # more than a cluster has cores
# Properties that replace the number of cores as Spark's default parallelism.
_PARALLELISM = ("spark.sql.leafNodeDefaultParallelism", "spark.default.parallelism")


def is_connect(spark: SparkSession) -> bool:
    """Return whether this is a session of Spark Connect."""
    return not hasattr(spark, "_jsparkSession")


def get_property(spark: SparkSession, name: str, default: str) -> str:
    """Return a property of the session or its cluster; the default too if it may not be read."""
    try:
        return spark.conf.get(name, default) or default
    except PySparkException:  # a managed service hides some of them
        return default


def is_local(spark: SparkSession) -> bool:
    """Return whether tasks run inside the process of the driver or Connect server."""
    return re.match(r"local(\[|$)", get_property(spark, "spark.master", "")) is not None


def default_parallelism(spark: SparkSession) -> int:
    """Return the cores of the cluster, or what the settings of Spark replace them by."""
    if not is_connect(spark):
        return int(spark.sparkContext.defaultParallelism)
    parts = spark.range(_MANY_ROWS).select(F.spark_partition_id().alias("part"))
    row = parts.agg(F.max("part")).first()
    return int(row[0]) + 1 if row else 1


def task_cpus(spark: SparkSession) -> int:
    """Return the cores of one task."""
    return int(get_property(spark, "spark.task.cpus", "1"))


def task_slots(spark: SparkSession) -> int:
    """Return how many tasks can run at once, as Spark counts them for barrier stages.

    Where settings hide the number from a session of Spark Connect, it is larger than any cluster.
    """
    if not is_connect(spark):
        scala: Any = spark.sparkContext._jsc.sc()
        profile = scala.resourceProfileManager().defaultResourceProfile()
        return int(scala.maxNumConcurrentTasks(profile))
    if any(get_property(spark, name, "") for name in _PARALLELISM):
        return _MANY_ROWS
    return max(default_parallelism(spark) // task_cpus(spark), 1)


@contextlib.contextmanager
def cancelled_on_error(spark: SparkSession) -> Iterator[None]:
    """Cancel the jobs that this thread started within the block if it ends by an exception.

    Other jobs of the session continue.
    """
    tag = f"ulr-{uuid.uuid4().hex}"
    _tags(spark, "addTag", "addJobTag", tag)
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):  # the first error is the cause
            _tags(spark, "interruptTag", "cancelJobsWithTag", tag)
        raise
    finally:
        with contextlib.suppress(Exception):  # the JVM may have ended
            _tags(spark, "removeTag", "removeJobTag", tag)


def _tags(spark: SparkSession, name: str, of_context: str, tag: str) -> None:
    """Call a method of a Connect session, or of the context of a classic one.

    Before Spark 4 a classic session has methods of this name that raise an error.
    """
    if is_connect(spark):
        getattr(spark, name)(tag)
    else:
        getattr(spark.sparkContext, of_context)(tag)
