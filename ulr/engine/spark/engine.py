"""The engine on Spark: the session of the settings, or one that is given."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from ulr.engine.failures import reraise_user_errors
from ulr.engine.here import map_here, size_of
from ulr.engine.interface import SMALL_BYTES, Batches, Rank, Shared, Source
from ulr.engine.spark import cluster, ranks
from ulr.engine.spark.session import start_session
from ulr.engine.spark.tasks import map_source
from ulr.engine.spark.versions import JVM_ERRORS


class SparkEngine:
    """Runs functions in Spark tasks. The session is started when it is first needed.

    application: its name. settings: Spark properties without the prefix `spark.`. small_bytes: of
    work that runs in the driver.
    """

    name = "spark"

    def __init__(
        self,
        application: str = "ulr",
        settings: Mapping[str, object] | None = None,
        *,
        session: SparkSession | None = None,
        small_bytes: int = SMALL_BYTES,
    ) -> None:
        self._application, self._settings = application, dict(settings or {})
        self._session, self._small_bytes = session, small_bytes
        self._starting = threading.Lock()

    @property
    def session(self) -> SparkSession:
        """The session."""
        with self._starting:
            if self._session is None:
                self._session = start_session(self._application, self._settings)
            return self._session

    @property
    def parallelism(self) -> int:
        """Cores of the cluster, or what the settings of Spark replace them by."""
        return cluster.default_parallelism(self.session)

    def map(self, source: Source, function: Callable[[Any], Batches]) -> list[pa.RecordBatch]:
        """Run a function in tasks; return its batches in the order of the items or parts."""
        if size_of(source) <= self._small_bytes:
            return map_here(source, function)
        with reraise_user_errors():
            return map_source(self.session, source, function)

    def ranks(
        self, count: int, function: Callable[[Rank], bytes], *, timeout: float
    ) -> list[bytes]:
        """Run a function in the tasks of a barrier stage, and return their results."""
        return ranks.run_ranks(self.session, count, function, timeout)

    def check_ranks(self, count: int) -> None:
        """Raise if the cluster cannot run so many tasks at once; a barrier stage would hang."""
        ranks.check_slots(self.session, count)

    def slots(self) -> int:
        """Return how many tasks can run at once."""
        return cluster.task_slots(self.session)

    def threads(self, ranks: int) -> int:
        """Return the threads of each rank, if so many run at the same time."""
        if cluster.is_local(self.session):
            return max(1, self.parallelism // ranks)
        return cluster.task_cpus(self.session)

    def driver_address(self) -> tuple[str, str] | None:
        """Return the host of the driver for tasks, and the address to listen on.

        None with Spark Connect: tasks cannot be expected to reach a client.
        """
        if cluster.is_connect(self.session):
            return None
        host = cluster.get_property(self.session, "spark.driver.host", "localhost")
        return host, cluster.get_property(self.session, "spark.driver.bindAddress", host)

    def share(self, value: Any) -> Shared:
        """Make a value available to tasks; with Spark Connect it is sent with every task."""
        if cluster.is_connect(self.session):
            return _Sent(value)
        return _Broadcast(self.session.sparkContext.broadcast(value))

    def admit(self, size: int, what: str) -> None:
        """Do nothing: Spark's tasks read a part of the data at a time."""

    def progress(self) -> tuple[int, int] | None:
        """Return the finished tasks and all tasks of the first active stage."""
        if self._session is None or cluster.is_connect(self._session):
            return None
        with contextlib.suppress(*JVM_ERRORS, OSError):  # the JVM may end at any time
            tracker = self._session.sparkContext.statusTracker()
            for number in sorted(tracker.getActiveStageIds()):
                if (info := tracker.getStageInfo(number)) is not None:
                    return info.numCompletedTasks, info.numTasks
        return None

    def cancel(self) -> None:
        """Cancel all jobs."""
        if self._session is not None and cluster.is_connect(self._session):
            self._session.interruptAll()
        elif self._session is not None:
            self._session.sparkContext.cancelAllJobs()


class _Sent(NamedTuple):
    """A value that is pickled with the function that uses it."""

    value: Any

    def close(self) -> None:
        """Do nothing."""


class _Broadcast:
    """A broadcast variable."""

    def __init__(self, variable: Any) -> None:
        self._variable = variable

    @property
    def value(self) -> Any:
        """The value."""
        return self._variable.value

    def close(self) -> None:
        """Remove the value from the executors."""
        self._variable.destroy()

    def __reduce__(self) -> Any:
        return _Broadcast, (self._variable,)
