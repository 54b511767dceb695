"""Values of text logs: texts and JSON values as the types of the contract.

A boolean is `true`, `false`, `0` or `1`; in CSV also `t` and `f`. A number is a valid id. Times are
those of `times`. Everything else follows Spark's casts and its JSON reader. Whole columns are
parsed by Arrow. The functions of one value are for texts that Arrow does not accept, and define
which texts are valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ulr.clicklog.numbers import flag_lists, without_loss
from ulr.clicklog.times import epoch_texts, iso_times, parse_epoch, parse_time
from ulr.clicklog.vectors import as_vectors, in_text
from ulr.engine.columns import valid, whole

BAD = object()  # a JSON value that is not of the wanted type
NOT_TEXT = object()  # a JSON string with half of a surrogate pair, which UTF-8 cannot hold
SLICE_ROWS = 256  # rows that are parsed one by one if Arrow rejects one of them

_TRUE, _FALSE = frozenset(("true", "t", "1", "1.0")), frozenset(("false", "f", "0", "0.0"))


class Number(str):
    """A JSON number as it is written."""

    __slots__ = ()


DECODER = json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=Number)


def typed_columns(
    columns: Mapping[str, pa.Array],
    schema: pa.Schema,
    rows: int,
    convert: Callable[[pa.Array, pa.DataType], pa.Array],
) -> tuple[list[pa.Array], np.ndarray]:
    """Return the columns of the schema, null where there is none, and which rows are bad: bool.

    convert: returns a column with the wanted type; a value that is not valid becomes null, and its
    row is bad.
    """
    bad, arrays = np.zeros(rows, bool), []
    for field in schema:
        column = columns.get(field.name)
        typed = pa.nulls(rows, field.type) if column is None else convert(column, field.type)
        if column is not None and typed.null_count > column.null_count:
            bad |= valid(column) & ~valid(typed)
        arrays.append(typed)
    return arrays, bad


def parse_texts(texts: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column of texts (string) as the wanted type; a text that is not valid gives null."""
    if pa.types.is_string(wanted):
        return texts
    if pa.types.is_timestamp(wanted):
        for parse_column in (iso_times, epoch_texts):
            if (times := parse_column(texts)) is not None:
                return times
        return _one_by_one(texts, wanted, parse_time)
    if pa.types.is_list(wanted):
        return _lists(texts, wanted)
    parse = parse_boolean if pa.types.is_boolean(wanted) else parse_integer
    return _one_by_one(texts, wanted, parse)


def parse_boolean(text: str) -> bool | None:
    """Return true or false."""
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def parse_integer(text: str) -> int | None:
    """Return a 32-bit integer."""
    if not re.fullmatch(r"[+-]?[0-9]{1,99}", text.strip(), re.ASCII):
        return None
    value = int(text)
    return value if -(2**31) <= value < 2**31 else None


def from_json(value: Any, wanted: pa.DataType) -> Any:
    """Return a decoded JSON value (numbers as `Number`) as the wanted type, BAD or NOT_TEXT."""
    if value is None:
        return None
    if parse := _PARSERS.get(wanted):
        return parse(value)
    if pa.types.is_list(wanted):
        if not isinstance(value, list):
            return BAD
        elements = [from_json(v, wanted.value_type) for v in value]
        return next((e for e in elements if e is BAD or e is NOT_TEXT), elements)
    parsed: int | None = None
    if pa.types.is_timestamp(wanted):
        if isinstance(value, Number):
            parsed = parse_epoch(value)
        elif isinstance(value, str):
            parsed = parse_time(value)
    elif isinstance(value, Number) and not value.startswith("+"):
        parsed = parse_integer(value)
    return BAD if parsed is None else parsed


def _flag(value: Any) -> Any:
    """Return a JSON boolean, or the number 0 or 1 as one, or BAD."""
    if isinstance(value, Number):
        return {0.0: False, 1.0: True}.get(float(value), BAD)
    return value if isinstance(value, bool) else BAD


def _number(value: Any) -> Any:
    """Return a JSON number, a boolean as 0 or 1, or BAD."""
    return float(value) if isinstance(value, Number | bool) else BAD


def _id(value: Any) -> Any:
    """Return a JSON value as a string, anything but a string as its JSON text, or NOT_TEXT."""
    try:
        text = value if isinstance(value, str) else _compact(value)
        text.encode()
    except RecursionError:
        return BAD
    except UnicodeEncodeError:
        return NOT_TEXT
    return str(text)


_PARSERS: Mapping[pa.DataType, Callable[[Any], Any]] = {
    pa.string(): _id, pa.bool_(): _flag, pa.float32(): _number
}  # fmt: skip


def _compact(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, list):
        return f"[{','.join(map(_compact, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_compact(v)}" for k, v in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def _lists(texts: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return JSON arrays; slices that Arrow rejects are parsed one by one."""
    whole_column = _read_lists(texts, wanted)
    if whole_column is not None:
        return whole_column
    if len(texts) <= SLICE_ROWS:
        return _one_by_one(texts, wanted, lambda text: _parse_list(text, wanted))
    slices = (texts.slice(at, SLICE_ROWS) for at in range(0, len(texts), SLICE_ROWS))
    return pa.concat_arrays([_lists(part, wanted) for part in slices])


def _read_lists(texts: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Return JSON arrays that Arrow's reader accepts; None if it rejects one."""
    lines = pc.binary_join_element_wise('{"v":', texts, "}\n", "", null_handling="replace",
                                        null_replacement="null")  # fmt: skip
    content = whole(lines).buffers()[2]
    table = read_json(content, pa.schema([("v", in_text(wanted))]))
    if table is not None and len(table) == len(texts):
        return as_vectors(whole(table["v"]), wanted)
    if not pa.types.is_boolean(wanted.value_type):
        return None
    table = read_json(content, pa.schema([("v", pa.list_(pa.int64()))]))
    if table is None or len(table) != len(texts):
        return None
    numbers = table["v"].combine_chunks()
    return without_loss(numbers, flag_lists(numbers))


def read_json(content: bytes | pa.Buffer | None, schema: pa.Schema) -> pa.Table | None:
    """Return lines of JSON as a table; None if Arrow cannot read them with this schema."""
    if content is None or not len(content):
        return schema.empty_table()
    options = pj.ReadOptions(use_threads=False, block_size=len(content) + 1)
    parse = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        return pj.read_json(pa.BufferReader(content), options, parse)
    except pa.ArrowInvalid:
        return None


def _parse_list(text: str, wanted: pa.DataType) -> list[Any] | None:
    value = decode(text)
    parsed = from_json(value, wanted)
    return None if parsed is BAD or parsed is NOT_TEXT else parsed


def decode(text: str) -> Any:
    """Return the JSON value at the start of a text, or BAD; single quotes are quotes, too."""
    text = text.lstrip("\ufeff \t\r\n")
    for candidate in (text, _double_quoted(text)):
        try:
            return DECODER.raw_decode(candidate)[0]
        except (ValueError, RecursionError):
            continue
    return BAD


def _double_quoted(text: str) -> str:
    """Replace the single quotes around strings by double quotes."""

    def replaced(match: re.Match[str]) -> str:
        content = match[1]
        return match[0] if content is None else json.dumps(content.replace("\\'", "'"))

    return re.sub(r"\"(?:[^\"\\]|\\.)*\"|'((?:[^'\\]|\\.)*)'", replaced, text)


def _one_by_one(texts: pa.Array, wanted: pa.DataType, parse: Callable[[str], Any]) -> pa.Array:
    """Parse each distinct text once."""
    encoded = texts.dictionary_encode()
    values = [parse(text) for text in encoded.dictionary.to_pylist()]
    return pa.array(values, wanted).take(encoded.indices)
