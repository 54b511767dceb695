"""Messages about names that do not exist, with the nearest that does."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_SHOWN = 40  # names of columns in a message


def missing_column(source: str, name: str, columns: Sequence[str]) -> str:
    """Return the message that a source has no such column, with the nearest name."""
    shown = ", ".join(columns[:_SHOWN]) + (", ..." if len(columns) > _SHOWN else "")
    return f"{source} has no column {name}{nearest(name, columns)}; it has {shown or 'none'}"


def nearest(name: str, names: Sequence[str]) -> str:
    """Return ` (did you mean NAME?)` with the most similar name, or "" if none is similar."""
    lowered = {n.lower(): n for n in names}
    matches = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.5)
    return f" (did you mean {lowered[matches[0]]}?)" if matches else ""
