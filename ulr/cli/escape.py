"""Text of logs and file names for a terminal: control characters are shown, not executed."""

from __future__ import annotations

import re

from rich.table import Table

# C0 (without tab and newline), DEL, C1, and the characters that reorder text or break lines.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]"
)


def escape(text: str) -> str:
    r"""Return the text with control characters as escapes, such as \x1b; newlines are kept."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def escape_line(text: str) -> str:
    """Return the text as one line, with newlines as escapes too."""
    return escape(text).replace("\n", "\\n")


def escape_cells(table: Table) -> None:
    """Escape the texts of a table in place."""
    if isinstance(table.title, str):
        table.title = escape_line(table.title)
    for column in table.columns:
        if isinstance(column.header, str):
            column.header = escape_line(column.header)
        column._cells = [escape_line(c) if isinstance(c, str) else c for c in column._cells]
