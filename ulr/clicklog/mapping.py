"""How the columns of a user's log give those of the contract: `log.columns`.

A plain name renames a column while files are read. An expression is evaluated by Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

from ulr.engine.names import nearest
from ulr.errors import UserError
from ulr.warehouse.schema import FEEDBACK, reading

_NAME = re.compile(r"[A-Za-z_]\w*|`(?P<quoted>[^`.]+)`")
_LITERALS = {"true", "false", "null"}


def check_names(columns: Mapping[str, str], schema: pa.Schema, layout: str) -> None:
    """Raise UserError if `log.columns` has a name that the contract does not have."""
    for name in columns:
        if name not in schema.names:
            raise UserError(
                f"log.columns.{name}: log.layout={layout} has no column {name}"
                f"{nearest(name, schema.names)}; it has {', '.join(schema.names)}"
            )


def stored_names(columns: Mapping[str, str], schema: pa.Schema) -> dict[str, str] | None:
    """Return the stored names of the renamed columns; None if a column is an expression.

    Also None if two columns have the same stored name, or one that readers add, and for clicks and
    feedback of a log that has feedback, which readers find by these names.
    """
    names = {name: name for name in schema.names}
    for name, text in columns.items():
        match = _NAME.fullmatch(text.strip())
        if match is None or match[0].lower() in _LITERALS:
            return None
        names[name] = match["quoted"] or match[0]
    if FEEDBACK in schema.names and columns.keys() & {FEEDBACK, "clicks", "clicked"}:
        return None
    added = set(reading(schema).names) - set(schema.names)
    if len(set(names.values())) < len(names) or added & set(names.values()):
        return None
    return {name: stored for name, stored in names.items() if stored != name}


def stored_schema(schema: pa.Schema, names: Mapping[str, str]) -> pa.Schema:
    """Return the contract's columns and types under the names that they are stored with."""
    return pa.schema([pa.field(names.get(f.name, f.name), f.type) for f in schema])
