"""Rows as text, for the column `raw` of the quarantine: always UTF-8, and never long."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

RAW_CHARACTERS = 16 << 10  # longer texts are cut
_ELEMENTS, _ELEMENT_CHARACTERS = 1000, 200  # shown of a list, and of each of its elements


def shorten(text: str, characters: int = RAW_CHARACTERS) -> str:
    """Return a text cut at a number of characters, with a mark where it was cut."""
    return text if len(text) <= characters else f"{text[:characters]} …"


def row_text(row: pa.RecordBatch) -> str:
    """Return a batch of one row as a JSON object."""
    cells = {n: cell(column[0]) for n, column in zip(row.schema.names, row.columns, strict=True)}
    return shorten(json.dumps(cells, default=str))


def cell(scalar: pa.Scalar, characters: int = RAW_CHARACTERS) -> Any:
    """Return a value of any column for JSON, texts cut at a number of characters.

    Bytes that are not UTF-8 are replaced. A time beyond the years of Python is its number.
    """
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_dictionary(kind):
        return cell(scalar.value, characters)
    if isinstance(scalar, pa.BinaryScalar | pa.StringScalar | pa.LargeStringScalar):
        content = scalar.as_buffer()
        beginning = content[: min(content.size, 4 * (characters + 1))].to_pybytes()
        return shorten(beginning.decode(errors="replace"), characters)
    if isinstance(scalar, pa.ListScalar):
        return [cell(v, _ELEMENT_CHARACTERS) for v in scalar.values[:_ELEMENTS]]
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):  # UnicodeDecodeError is a ValueError
        return str(scalar.cast(pa.int64())) if pa.types.is_temporal(kind) else "not readable"
