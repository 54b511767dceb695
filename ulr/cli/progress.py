"""Progress on stderr while somebody watches: steps of a command, Spark's tasks, training rounds.

There is one display for a process; whatever is watched inside something else adds its line to it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark import SparkContext, SparkStageInfo
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from ulr.cli.pace import Pace, left_of
from ulr.cli.terminal import printing_above, progress_console

_INTERVAL_S = 0.3
Told = Callable[[int, float | None], None]
_shown: list[Progress] = []


class Left(ProgressColumn):
    """What a task's own `left` says, in its own words."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """Such as `about 0:01:10 left`; nothing where that is not known."""
        seconds = task.fields["left"](task)
        if seconds is None or task.finished:
            return Text("")
        clock = timedelta(seconds=round(seconds))
        return Text(f"{task.fields['about']} {clock} left", style="progress.remaining")


@dataclass
class Step:
    """A step under way; the block that runs it says whether there was nothing to do."""

    skipped: bool = False


class Stepping(Protocol):
    """Runs a step as a block."""

    def __call__(self, kind: str, name: str | None = None) -> AbstractContextManager[Step]:
        """kind: what it takes as long as; name: of Spark's tasks in it, if they are to be seen."""


@contextlib.contextmanager
def _display() -> Iterator[Progress | None]:
    console = progress_console()
    if console is None or _shown:
        yield _shown[-1] if _shown else None
        return
    columns = (TextColumn("{task.description}"), BarColumn(),
               TextColumn("{task.completed}/{task.total} {task.fields[unit]}"),
               TimeElapsedColumn(), Left())  # fmt: skip
    # Python's stdout and stderr belong to the log: they are not to be drawn above the bars.
    plain = {"redirect_stdout": False, "redirect_stderr": False, "transient": True}
    with Progress(*columns, console=console, **plain) as bars, printing_above(console):
        _shown.append(bars)
        try:
            yield bars
        finally:
            _shown.pop()


@contextlib.contextmanager
def steps(title: str, kinds: Sequence[str], unit: str) -> Iterator[Stepping]:
    """A bar of steps, if there are several; the block gets a function that runs one, as a block.

    It takes the step's kind, and a title if Spark's tasks are to be shown in it. The time left is
    told once a step of every kind that is to come has been seen.
    """
    pace = Pace(kinds)
    with _display() as bars:
        bar = None
        if bars and pace.total > 1:
            bar = bars.add_task(title, total=pace.total, unit=unit, about="about",
                                left=lambda task: pace.left())  # fmt: skip

        @contextlib.contextmanager
        def step(kind: str, name: str | None = None) -> Iterator[Step]:
            number, this = pace.begin(kind), Step()
            with watched(name) if name else contextlib.nullcontext():
                yield this
            pace.end(number, skipped=this.skipped)
            if bar is not None:
                bars.update(bar, completed=pace.done)

        yield step
        if bar is not None:
            bars.remove_task(bar)


@contextlib.contextmanager
def watched(title: str) -> Iterator[None]:
    """Show the progress of whatever Spark runs in the block; silent where nobody watches."""
    with _display() as bars:
        if bars is None:
            yield
            return
        done = threading.Event()
        watcher = threading.Thread(target=_watch, args=(bars, title, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


@contextlib.contextmanager
def watched_rounds(title: str, rounds: int, metric: str) -> Iterator[Told]:
    """A bar of training rounds with the last validation value and the time left, at most; the
    block gets the function to be told of each round."""
    first: list[tuple[int, float]] = []

    def left(task: Task) -> float | None:
        if not first:
            return None
        number, began = first[0]
        return left_of(task.completed - number, rounds - number, time.monotonic() - began)

    with _display() as bars:
        if bars is None:
            yield lambda number, value: None
            return
        bar = bars.add_task(title, total=rounds, unit="rounds", about="at most", left=left)

        def tell(number: int, value: float | None) -> None:
            if not first:
                first.append((number, time.monotonic()))
            shown = "" if value is None else f" {metric} {value:.5f}"
            bars.update(bar, completed=number, description=f"{title}{shown}")

        try:
            yield tell
        finally:
            bars.remove_task(bar)


def _watch(bars: Progress, title: str, done: threading.Event) -> None:
    """Poll the active stages; a new stage starts the bar anew, and its time left is its own."""
    began = [time.monotonic()]

    def left(task: Task) -> float | None:
        return left_of(task.completed, task.total or 0, time.monotonic() - began[0])

    bar = bars.add_task(title, total=None, unit="tasks", about="this Spark stage: about", left=left)
    stage = None
    with contextlib.suppress(Py4JError, OSError):  # the JVM may end before its watcher does
        while not done.wait(_INTERVAL_S):
            context = SparkContext._active_spark_context
            info = _first_active(context) if context else None
            if info is None:
                continue
            if info.stageId != stage:
                stage, began[0] = info.stageId, time.monotonic()
                bars.reset(bar, total=info.numTasks)
            bars.update(bar, completed=info.numCompletedTasks)
    bars.remove_task(bar)


def _first_active(context: SparkContext) -> SparkStageInfo | None:
    tracker = context.statusTracker()
    infos = (tracker.getStageInfo(number) for number in sorted(tracker.getActiveStageIds()))
    return next((info for info in infos if info is not None), None)
