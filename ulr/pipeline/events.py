"""Results and progress that a pipeline reports while it runs.

The base class ignores them; `ulr.cli.progress` prints them on a terminal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # imports LightGBM
    from ulr.training.loop import IterationCallback

# Runs one step as a `with` block; the argument is the title for the tasks inside it, if any.
StepContext = Callable[[str | None], AbstractContextManager[None]]


class Events:
    """Receives events; subclasses show them."""

    def line(self, text: str) -> None:
        """Report one result."""

    def warning(self, text: str) -> None:
        """Report something that the user should check; the run continues."""

    @contextlib.contextmanager
    def steps(self, title: str, total: int, unit: str) -> Iterator[StepContext]:
        """Count the steps of the block."""
        yield lambda title: contextlib.nullcontext()

    @contextlib.contextmanager
    def tasks(self, title: str) -> Iterator[None]:
        """Follow the tasks that run in the block."""
        yield

    @contextlib.contextmanager
    def iterations(self, title: str, total: int, metric: str) -> Iterator[IterationCallback]:
        """Follow a training; the callback takes the iteration and its validation value."""
        yield lambda iteration, value: None


SILENT = Events()
