"""Output of a command: results on stdout, progress and errors on stderr.

While a command runs, output of libraries and child processes goes to a log file
(`ulr.engine.quiet`), so that `--json` prints exactly one document. Control characters in names and
messages, which may come from a log, are escaped.
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

from ulr.cli.escape import escape, escape_cells, escape_line
from ulr.engine.quiet import output_to_log
from ulr.redact import redact_text


@dataclass(frozen=True)
class CommandResult:
    """The document for `--json`, and the error of a command that failed after producing it."""

    document: Any
    error: Exception | None = None


@dataclass(frozen=True)
class Screen:
    """Streams and output options of a command. A stream of None is Python's current one."""

    out: TextIO | None = None
    err: TextIO | None = None
    quiet: bool = False
    json: bool = False


_UNLIMITED_WIDTH = 10_000
_screens = [Screen()]
_bars: list[Console] = []


@contextlib.contextmanager
def on_screen(stage: str, *, quiet: bool, json: bool) -> Iterator[Path | None]:
    """Reserve the terminal for the block's own output; yield the log file for everything else."""
    with output_to_log(stage) as (out, err, path):
        _screens.append(Screen(out, err, quiet, json))
        try:
            yield path
        finally:
            _screens.pop()
    if path and len(_screens) == 1 and not path.stat().st_size:
        path.unlink()


def print_line(text: str) -> None:
    """Print one line of result, unless --quiet or --json was given."""
    if _screens[-1].quiet or _screens[-1].json:
        return
    text = escape(text)
    if _bars and (_screens[-1].out or sys.stdout).isatty():
        _bars[-1].print(text, soft_wrap=True)
    else:
        _write(text, _screens[-1].out or sys.stdout)


def print_table(table: Table) -> None:
    """Print a table: drawn on a terminal that is wide enough, else as plain columns."""
    if _screens[-1].quiet or _screens[-1].json:
        return
    escape_cells(table)
    console = console_of(_screens[-1].out or sys.stdout)
    options = console.options.update(width=_UNLIMITED_WIDTH)
    if console.is_terminal and console.measure(table, options=options).minimum <= console.width:
        console.print(table)
    else:
        print_line(plain(table))


def print_document(document: Any) -> None:
    """Print the document of `--json`."""
    if _screens[-1].json:
        _write(document_text(document), _screens[-1].out or sys.stdout)


def document_text(document: Any) -> str:
    """Return a document as JSON, without control characters."""
    text = json.dumps(_strict(document), indent=1, default=str, allow_nan=False)
    return text.replace("\x7f", "\\u007f")


def print_error(text: str) -> None:
    """Print one line on stderr."""
    _write(f"ulr: {escape_line(text)}", _screens[-1].err or sys.stderr)


def print_warning(text: str) -> None:
    """Print one line on stderr, also with --quiet and --json."""
    line, stream = f"ulr: warning: {redact_text(text)}", _screens[-1].err or sys.stderr
    if _bars and stream.isatty():
        _bars[-1].print(line, soft_wrap=True)
    else:
        _write(line, stream)


def _write(text: str, stream: TextIO) -> None:
    """Write a line; a closed pipe, as after `| head`, does not stop the command."""
    try:
        print(text, file=stream, flush=True)
    except BrokenPipeError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


@contextlib.contextmanager
def printing_above(bars: Console) -> Iterator[None]:
    """Print lines of the block above the progress bars of this console."""
    _bars.append(bars)
    try:
        yield
    finally:
        _bars.pop()


def progress_console() -> Console | None:
    """Return the console for progress bars, or None if stderr is no terminal."""
    console = console_of(_screens[-1].err or sys.stderr)
    return console if console.is_terminal and not _screens[-1].quiet else None


def console_of(file: TextIO) -> Console:
    """Return a console as wide as the file's own terminal, without markup."""
    try:
        width = os.get_terminal_size(file.fileno()).columns or None
    except (OSError, ValueError):
        width = None
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def plain(table: Table) -> str:
    """Return the table as columns of text, two spaces apart."""
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
    """Return the value with infinities as text and NaN as None: JSON has neither."""
    if isinstance(value, Mapping):
        return {str(k): _strict(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
