"""Parse blocks of JSON lines. Arrow reads whole blocks; lines that it rejects are read singly.

A line is one object, or an array of objects. A line that is no JSON, or has a value of the wrong
type, gets the problem bad_type; a line that is not UTF-8 gets bad_encoding. `raw` holds its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ulr.clicklog.encoding import is_utf8
from ulr.clicklog.events import as_events
from ulr.clicklog.lines import cut_lines
from ulr.clicklog.numbers import flag_lists, flags, without_loss
from ulr.clicklog.raw import shorten
from ulr.clicklog.times import epoch_times, iso_times
from ulr.clicklog.values import BAD, NOT_TEXT, decode, from_json, parse_texts, read_json
from ulr.clicklog.vectors import as_vectors, in_text, is_vector
from ulr.engine.columns import whole
from ulr.warehouse.schema import FEEDBACK, TIMESTAMP

PIECE_BYTES = 64 << 10  # read again line by line if Arrow rejects it
# Integers that Arrow reads faster than single lines, by the type that they stand for.
_INTEGERS = {
    pa.string(): pa.int64(), TIMESTAMP: pa.int64(), pa.bool_(): pa.int64(),
    pa.list_(pa.string()): pa.list_(pa.int64()), pa.list_(pa.bool_()): pa.list_(pa.int64()),
}  # fmt: skip


def parse_json(
    block: bytes, schema: pa.Schema, folder: Mapping[str, str | None]
) -> Iterator[pa.Table]:
    """Yield the rows of a block of whole lines: the columns of the schema, `problem` and `raw`.

    folder: texts of columns that the file's folders define, for rows in which they are null.
    """
    types = _text_types(schema)
    table = _read_block(block, types, schema)
    if table is not None:
        yield _complete(table, schema, folder)
        return
    types = _with_numbers(block, types, schema)
    for piece in cut_lines(block, PIECE_BYTES):
        table = _read_block(piece, types, schema)
        yield _complete(_read_lines(piece, schema) if table is None else table, schema, folder)


def first_names(content: bytes) -> list[str]:
    """Return the names of the objects in the whole lines at the beginning of a file."""
    lines = content.splitlines()
    whole_lines = lines[:-1] or lines
    names: dict[str, None] = {}
    for line in whole_lines:
        value = decode(line.decode(errors="replace"))
        for item in value if isinstance(value, list) else [value]:
            names |= dict.fromkeys(item if isinstance(item, dict) else ())
    return list(names)


def _text_types(schema: pa.Schema) -> pa.Schema:
    """Return the schema with times as text, which Arrow's reader would accept in fewer forms."""
    types = [pa.string() if pa.types.is_timestamp(f.type) else in_text(f.type) for f in schema]
    return pa.schema([f.with_type(kind) for f, kind in zip(schema, types, strict=True)])


def _with_numbers(block: bytes, types: pa.Schema, schema: pa.Schema) -> pa.Schema:
    """Return the types with numbers for ids, times and clicks that are numbers in the first lines.

    schema: the wanted types.
    """
    lines = next(cut_lines(block, PIECE_BYTES)).splitlines(keepends=True)
    sample = b"".join(line for line in lines if is_utf8(line))  # Arrow checks no names
    try:
        inferred = pj.read_json(pa.BufferReader(sample)).schema
    except pa.ArrowInvalid:
        return types
    kinds = dict(zip(inferred.names, inferred.types, strict=True))
    fields = []
    for field, wanted in zip(types, schema.types, strict=True):
        kind = kinds.get(field.name)
        number = kind in (pa.int64(), pa.list_(pa.int64())) and kind == _INTEGERS.get(wanted)
        time = kind == pa.float64() and pa.types.is_timestamp(wanted)
        events = field.name == FEEDBACK and kind == pa.list_(wanted)
        fields.append(pa.field(field.name, kind) if number or time or events else field)
    return pa.schema(fields)


def _read_block(block: bytes, types: pa.Schema, schema: pa.Schema) -> pa.Table | None:
    """Return the rows of a block; None if Arrow rejects it, or reads other rows than its lines."""
    lines = _count_objects(block)
    table = None if lines is None or not is_utf8(block) else read_json(block, types)
    if table is None or table.num_rows != lines:
        return None
    arrays = []
    try:
        if b"\\u" in block:
            table.validate(full=True)  # halves of surrogate pairs
        for field in schema:
            column = _typed(whole(table[field.name]), field.type)
            if column is None:
                return None
            arrays.append(column)
    except pa.ArrowInvalid:
        return None
    return pa.table(arrays, schema=schema)


def _typed(column: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Return a column with the wanted type; None if a value is not valid."""
    kind = column.type
    if kind == wanted:
        return column
    if kind == pa.list_(wanted):
        return as_events(column, wanted)
    if pa.types.is_timestamp(wanted):
        times = iso_times(column) if pa.types.is_string(kind) else epoch_times(column)
        return without_loss(column, times)
    if pa.types.is_boolean(wanted):
        return without_loss(column, flags(column))
    if pa.types.is_list(wanted) and pa.types.is_boolean(wanted.value_type):
        return without_loss(column, flag_lists(column))
    return as_vectors(column, wanted) if is_vector(wanted) else column.cast(wanted)


def _complete(table: pa.Table, schema: pa.Schema, folder: Mapping[str, str | None]) -> pa.Table:
    """Add the columns of the folders, and `problem` and `raw` if the table lacks them."""
    for name, text in folder.items():
        at = schema.get_field_index(name)
        value = parse_texts(pa.array([text], pa.string()), schema.field(at).type)[0]
        column = pc.coalesce(table[name], value)
        table = table.set_column(at, schema.field(at), column)
    for name in ("problem", "raw"):
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(len(table), pa.string()))
    return table


def _count_objects(block: bytes) -> int | None:
    """Return the number of lines if each begins with a brace and ends with one, else None.

    Arrow reads objects, not lines: with equally many objects, each line is one object.
    """
    data = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    if not block.endswith(b"\n"):
        ends = np.append(ends, data.size)
    starts = np.append(0, ends[:-1] + 1)
    if (ends == starts).any():
        return None
    last = data[ends - 1]
    last = np.where(last == ord("\r"), data[np.maximum(ends - 2, 0)], last)
    objects = (data[starts] == ord("{")).all() and (last == ord("}")).all()
    return ends.size if objects else None


def _read_lines(block: bytes, schema: pa.Schema) -> pa.Table:
    """Read each line by itself."""
    rows: list[list[Any]] = []
    for line in block.splitlines():
        if line.strip():
            rows += _read_line(line, schema)
    columns = list(zip(*rows, strict=True)) or [()] * (len(schema) + 2)
    types = [*schema.types, pa.string(), pa.string()]
    arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
    return pa.table(arrays, names=[*schema.names, "problem", "raw"])


def _read_line(line: bytes, schema: pa.Schema) -> Iterator[list[Any]]:
    """Yield the rows of a line: the values of the schema, `problem` and `raw`."""
    text = line.decode(errors="replace")
    value = decode(text)
    objects = value if isinstance(value, list) else [value]
    if not all(isinstance(o, dict) for o in objects):
        objects, value = [{}], BAD
    encoded = is_utf8(line)
    for item in objects:
        fields = [from_json(item.get(f.name), f.type) for f in schema]
        problem = None
        if not encoded or any(f is NOT_TEXT for f in fields):
            problem = "bad_encoding"
        elif value is BAD or any(f is BAD for f in fields):
            problem = "bad_type"
        cells = [None if f is BAD or f is NOT_TEXT else f for f in fields]
        yield [*cells, problem, shorten(text) if problem else None]
