"""The interface to an engine: where the functions of a stage run.

A stage describes its work as a source and a function: `engine.map(source, function)`. The source
says what the tasks get. `Items` are files, parts of files or numbers; an `Exchange` is what other
tasks have sent, by part. Sources nest, so a stage with two shuffles is one description. Functions
and what is bound to them are pickled. Results are small, or already written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

Batches: TypeAlias = Iterator[pa.RecordBatch]
# A part (from 0), a kind and bytes: what a task sends to the task of that part.
Block: TypeAlias = tuple[int, str, pa.Buffer]
Blocks: TypeAlias = Iterator[Block]

TASKS_PER_CORE = 2
SMALL_BYTES = 4 << 20  # of compressed input: a second task, or process, costs more than it saves
TEXT_BYTES = 8  # text has about so many times the bytes of the same rows as Parquet
_PARTITION_BYTES = 32 << 20  # of compressed input: some hundred megabytes in a task's memory
_FEW = 8


@dataclass(frozen=True)
class Items:
    """Items of data; a task's function gets a list of them.

    sizes: bytes of each item; consecutive items are dealt to tasks by them. None: every item has a
    task of its own. size: bytes of all items, if it is known without sizes. Items without both
    never run in the calling process.
    """

    items: Sequence[Any]
    sizes: Sequence[int] | None = None
    size: int | None = None

    def tasks(self, parallelism: int) -> list[list[Any]]:
        """Return the items of each task."""
        if self.sizes is None:
            return [[item] for item in self.items]
        dealt = deal(self.sizes, TASKS_PER_CORE * parallelism)
        return [[self.items[i] for i in task] for task in dealt]


@dataclass(frozen=True)
class Rows:
    """Rows that only one engine can read, such as those of a table in a catalog of Spark.

    A task's function gets Arrow batches. reference: the engine's own, such as a DataFrame.
    """

    reference: Any


@dataclass(frozen=True)
class Exchange:
    """What tasks send, by part; a task's function gets blocks in no particular order.

    sends: sources, each with the function that yields its blocks. tasks: part p goes to task
    p % tasks; None: every part has a task of its own. A task without blocks does not run.
    """

    sends: Sequence[tuple[Source, Callable[[Any], Blocks]]]
    parts: int
    tasks: int | None = None

    @property
    def receivers(self) -> int:
        """The number of tasks that receive blocks."""
        return min(self.tasks or self.parts, self.parts)


Source: TypeAlias = Items | Rows | Exchange


class Shared(Protocol):
    """A value that every task may read."""

    @property
    def value(self) -> Any:
        """The value; loaded once in each process."""

    def close(self) -> None:
        """Release what the value occupies."""


class Rank(Protocol):
    """One of several tasks that run at the same time.

    number: from 0. size: how many there are. host: the address at which others reach this one.
    """

    number: int
    size: int
    host: str

    def gather(self, text: str) -> list[str]:
        """Return the texts of all ranks, in their order. Slow: for addresses only."""


class RanksFailed(RuntimeError):
    """Ranks ended without a result, for a reason that may not occur again."""


class Engine(Protocol):
    """Runs functions on items of data.

    name: local or spark. parallelism: cores for tasks.
    """

    name: str

    @property
    def parallelism(self) -> int:
        """Cores for tasks."""

    def map(self, source: Source, function: Callable[[Any], Batches]) -> list[pa.RecordBatch]:
        """Run a function in tasks; return its batches in the order of the items or parts.

        An error in a task is raised. Then no task runs any more, or will write anything.
        """

    def ranks(
        self, count: int, function: Callable[[Rank], bytes], *, timeout: float
    ) -> list[bytes]:
        """Run a function on `count` ranks at the same time, and return their results.

        timeout: seconds without a sign of life of a rank's process, after which it is killed.
        Raises RanksFailed if a rank was lost, and user errors as they are.
        """

    def check_ranks(self, count: int) -> None:
        """Raise UserError or TemporaryFailure if so many ranks cannot run at the same time."""

    def slots(self) -> int:
        """Return how many ranks can run at the same time."""

    def threads(self, ranks: int) -> int:
        """Return the threads of each rank, if so many run at the same time."""

    def driver_address(self) -> tuple[str, str] | None:
        """Return the host of this process for tasks, and the address to listen on, if any."""

    def share(self, value: Any) -> Shared:
        """Make a value available to tasks."""

    def admit(self, size: int, what: str) -> None:
        """Raise UserError if data of `size` compressed bytes do not fit into memory."""

    def progress(self) -> tuple[int, int] | None:
        """Return the finished tasks and all tasks of what runs now, if anything runs."""

    def cancel(self) -> None:
        """End everything that runs."""


def deal(sizes: Sequence[int], tasks: int) -> list[list[int]]:
    """Return the indices of the items of each task: consecutive items of about equal bytes.

    At most `tasks` lists, none of them empty.
    """
    if not sizes:
        return []
    weights = np.asarray(sizes, np.float64) + 1  # an empty file costs something, too
    middle = np.cumsum(weights) - weights / 2
    task = np.minimum((middle / weights.sum() * tasks).astype(int), tasks - 1)
    bounds = np.flatnonzero(np.diff(task)) + 1
    return [part.tolist() for part in np.split(np.arange(len(sizes)), bounds)]


def partitions_for(size: int) -> int:
    """Return the number of partitions for compressed input of `size` bytes.

    It depends on the input alone, so that the files of a table are the same on every engine.
    """
    return max(1, min(_FEW, -(-size // SMALL_BYTES)), -(-size // _PARTITION_BYTES))
