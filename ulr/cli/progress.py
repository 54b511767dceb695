"""Progress bars on stderr, if it is a terminal: steps, tasks, training iterations.

A process has one display. A nested block adds a bar to it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ulr.cli.escape import escape_line
from ulr.cli.terminal import print_line, print_warning, printing_above, progress_console
from ulr.engine.interface import Engine
from ulr.pipeline.events import Events, StepContext

if TYPE_CHECKING:  # imports LightGBM
    from ulr.training.loop import IterationCallback

_POLL_S = 0.3
_displays: list[Progress] = []


class TerminalEvents(Events):
    """Events that print results and, if stderr is a terminal, draw progress bars.

    engine: whose tasks are followed.
    """

    engine: Engine | None = None

    def line(self, text: str) -> None:
        """Print one result."""
        print_line(text)

    def warning(self, text: str) -> None:
        """Print one line on stderr."""
        print_warning(text)

    @contextlib.contextmanager
    def steps(self, title: str, total: int, unit: str) -> Iterator[StepContext]:
        """Draw a progress bar of the steps, if there is more than one."""
        with _display() as bars, _bar(bars if total > 1 else None, title, total, unit) as bar:

            @contextlib.contextmanager
            def step(title: str | None) -> Iterator[None]:
                with self.tasks(title) if title else contextlib.nullcontext():
                    yield
                if bars and bar is not None:
                    bars.advance(bar)

            yield step

    @contextlib.contextmanager
    def tasks(self, title: str) -> Iterator[None]:
        """Draw a progress bar of the tasks that the engine runs."""
        with _display() as bars, _bar(bars, title, None, "tasks") as bar:
            if bars is None or bar is None or self.engine is None:
                yield
                return
            done = threading.Event()
            follow = (self.engine, bars, bar, done)
            watcher = threading.Thread(target=_follow, args=follow, daemon=True)
            watcher.start()
            try:
                yield
            finally:
                done.set()
                watcher.join()

    @contextlib.contextmanager
    def iterations(self, title: str, total: int, metric: str) -> Iterator[IterationCallback]:
        """Draw a progress bar of the iterations with the latest validation value."""
        with _display() as bars, _bar(bars, title, total, "iterations") as bar:

            def on_iteration(iteration: int, value: float | None) -> None:
                if bars and bar is not None:
                    latest = "" if value is None else f" {metric} {value:.5f}"
                    bars.update(
                        bar, completed=iteration, description=escape_line(f"{title}{latest}")
                    )

            yield on_iteration


TERMINAL = TerminalEvents()


@contextlib.contextmanager
def _display() -> Iterator[Progress | None]:
    console = progress_console()
    if console is None or _displays:
        yield _displays[-1] if _displays else None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(),
               TextColumn("{task.completed}/{task.total} {task.fields[unit]}", markup=False),
               TimeElapsedColumn(), TimeRemainingColumn())  # fmt: skip
    # Python's stdout and stderr are already redirected to the log: rich must not capture them.
    with (
        Progress(*columns, console=console, transient=True,
                 redirect_stdout=False, redirect_stderr=False) as bars,
        printing_above(console),
    ):  # fmt: skip
        _displays.append(bars)
        try:
            yield bars
        finally:
            _displays.pop()


@contextlib.contextmanager
def _bar(
    bars: Progress | None, title: str, total: int | None, unit: str
) -> Iterator[TaskID | None]:
    if bars is None:
        yield None
        return
    bar = bars.add_task(escape_line(title), total=total, unit=unit)
    try:
        yield bar
    finally:
        bars.refresh()  # draw the final state before the bar is removed
        bars.remove_task(bar)


def _follow(engine: Engine, bars: Progress, bar: TaskID, done: threading.Event) -> None:
    """Poll the running tasks until `done`; other tasks reset the bar."""
    before = 0
    while not done.wait(_POLL_S):
        progress = engine.progress()
        if progress is None:
            continue
        finished, every = progress
        if every != before:
            before = every
            bars.reset(bar, total=every)
        bars.update(bar, completed=finished)
