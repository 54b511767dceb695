"""What a person at the terminal sees: results on stdout, progress of Spark's tasks on stderr."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from pyspark import SparkContext
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_INTERVAL_S = 0.3
Told = Callable[[int, float | None], None]


def say(text: str) -> None:
    """One line of result."""
    Console(highlight=False, soft_wrap=True).print(text, markup=False)


@contextlib.contextmanager
def watched(title: str) -> Iterator[None]:
    """Show the progress of whatever Spark runs in the block; silent where nobody watches."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/"
               "{task.total} tasks"), TimeElapsedColumn(), TimeRemainingColumn())  # fmt: skip
    done = threading.Event()
    with Progress(*columns, console=console, transient=True) as bars:
        watcher = threading.Thread(target=_watch, args=(bars, title, done), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


@contextlib.contextmanager
def watched_rounds(title: str, rounds: int, metric: str) -> Iterator[Told]:
    """A bar of training rounds with the last validation value and the time left; the block gets
    the function to be told of each round."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/"
               "{task.total} rounds"), TimeElapsedColumn(), TimeRemainingColumn())  # fmt: skip
    silent = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=silent) as bars:
        bar = bars.add_task(title, total=rounds)

        def tell(number: int, value: float | None) -> None:
            shown = "" if value is None else f" {metric} {value:.5f}"
            bars.update(bar, completed=number, description=f"{title}{shown}")

        yield tell


def _watch(bars: Progress, title: str, done: threading.Event) -> None:
    """Poll the active stages; a new stage starts the bar anew."""
    bar = bars.add_task(title, total=None)
    stage = None
    while not done.wait(_INTERVAL_S):
        context = SparkContext._active_spark_context
        if context is None:
            continue
        tracker = context.statusTracker()
        infos = [tracker.getStageInfo(number) for number in sorted(tracker.getActiveStageIds())]
        info = next((i for i in infos if i is not None), None)
        if info is None:
            continue
        if info.stageId != stage:
            stage = info.stageId
            bars.reset(bar, total=info.numTasks)
        bars.update(bar, completed=info.numCompletedTasks)
