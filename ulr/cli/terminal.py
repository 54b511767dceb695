"""What a person or a script at the terminal gets: results on stdout, all the rest on stderr.

While a command runs the screen is its own: what others print goes to a log file (`engine.quiet`), so
that `--json` leaves exactly one document on stdout.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from ulr.engine.quiet import noise_to_log


@dataclass(frozen=True)
class Answer:
    """What a command found, for `--json`, and the error that it ended in all the same."""

    document: Any
    error: Exception | None = None


@dataclass(frozen=True)
class Screen:
    """Who reads, and where. A stream of None is whatever Python's own is at that moment."""

    out: TextIO | None = None
    err: TextIO | None = None
    quiet: bool = False
    json: bool = False


_ANY_WIDTH = 10_000
_screens = [Screen()]
_bars: list[Console] = []


@contextlib.contextmanager
def on_screen(stage: str, *, quiet: bool, json: bool) -> Iterator[Path | None]:
    """The block has the screen for itself; yields the log file that takes everything else."""
    with noise_to_log(stage) as (out, err, path):
        _screens.append(Screen(out, err, quiet, json))
        try:
            yield path
        finally:
            _screens.pop()
    if path and not path.stat().st_size:
        path.unlink()


def say(text: str) -> None:
    """One line of result, for people."""
    if _screens[-1].quiet or _screens[-1].json:
        return
    if _bars and (_screens[-1].out or sys.stdout).isatty():
        _bars[-1].print(text, soft_wrap=True)
    else:
        _write(text, _screens[-1].out or sys.stdout)


def show(table: Table) -> None:
    """A table: drawn on a terminal, plain columns in a pipe or where it would be cut off."""
    if _screens[-1].quiet or _screens[-1].json:
        return
    console = console_of(_screens[-1].out or sys.stdout)
    needed = console.measure(table, options=console.options.update(width=_ANY_WIDTH)).minimum
    if console.is_terminal and needed <= console.width:
        console.print(table)
    else:
        say(plain(table))


def answer(document: Any) -> None:
    """What a script asked for with `--json`."""
    if _screens[-1].json:
        text = json.dumps(_strict(document), indent=1, default=str, allow_nan=False)
        _write(text, _screens[-1].out or sys.stdout)


def complain(text: str) -> None:
    """One line on stderr, whoever listens."""
    _write(f"ulr: {text}", _screens[-1].err or sys.stderr)


def _write(text: str, stream: TextIO) -> None:
    """A reader that has left, as `head` does, is no reason to stop working."""
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextlib.contextmanager
def printing_above(bars: Console) -> Iterator[None]:
    """Bars are being drawn: what is said to the same terminal meanwhile must not cut them up."""
    _bars.append(bars)
    try:
        yield
    finally:
        _bars.pop()


def progress_console() -> Console | None:
    """Where progress is drawn; None where nobody watches."""
    console = console_of(_screens[-1].err or sys.stderr)
    return console if console.is_terminal and not _screens[-1].quiet else None


def console_of(file: TextIO) -> Console:
    """A console that is as wide as its own terminal, and prints text as it is."""
    try:
        width = os.get_terminal_size(file.fileno()).columns or None
    except (OSError, ValueError):
        width = None
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def plain(table: Table) -> str:
    """Columns of text, two spaces apart."""
    columns = [[str(c.header), *map(str, c.cells)] for c in table.columns]
    sides = [str.rjust if c.justify == "right" else str.ljust for c in table.columns]
    widths = [max(map(len, cells)) for cells in columns]
    lines = [
        "  ".join(pad(cell, width) for pad, cell, width in zip(sides, row, widths, strict=True))
        for row in zip(*columns, strict=True)
    ]
    title = [str(table.title)] if table.title else []
    return "\n".join(line.rstrip() for line in [*title, *lines])


def _strict(value: Any) -> Any:
    """JSON has no infinity (kept as text) and nothing that is not a number (null)."""
    if isinstance(value, Mapping):
        return {str(k): _strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
