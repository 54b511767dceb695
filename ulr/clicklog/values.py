"""Values of text logs: texts and JSON values as the types of the contract.

The rules are those of Spark's casts and of its JSON reader: `true`, `T`, `yes` and `1` are
booleans in CSV, only `true` and `false` in JSON; a number is a valid id; times may lack parts and
have any zone. Whole columns are parsed by Arrow. The functions of one value are for texts that
Arrow does not accept, and define which texts are valid.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from ulr.engine.columns import valid, whole

BAD = object()  # a JSON value that is not of the wanted type
SLICE_ROWS = 256  # rows that are parsed one by one if Arrow rejects one of them

_TRUE, _FALSE = frozenset(("t", "true", "y", "yes", "1")), frozenset(("f", "false", "n", "no", "0"))
_TIME = re.compile(
    r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[T ]([0-9]{1,2})(?::([0-9]{1,2})"
    r"(?::([0-9]{1,2})(?:\.([0-9]*))?(.*))?)?)?)?)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?")
_SHORT_ZONES = {"PST": "America/Los_Angeles", "CST": "America/Chicago", "JST": "Asia/Tokyo",
                "IST": "Asia/Kolkata", "Z": "UTC", "UT": "UTC", "GMT": "UTC"}  # fmt: skip
_MOST_HOURS = 18
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


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
        times = iso_times(texts)
        return _one_by_one(texts, wanted, parse_time) if times is None else times
    if pa.types.is_list(wanted):
        return _lists(texts, wanted)
    parse = parse_boolean if pa.types.is_boolean(wanted) else parse_integer
    return _one_by_one(texts, wanted, parse)


def iso_times(texts: pa.Array) -> pa.Array | None:
    """Return ISO 8601 times to the second or finer as UTC microseconds; None if Arrow rejects one.

    Times without a zone are UTC. Digits past microseconds are cut.
    """
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    starts = offsets[:-1][valid(texts)]
    if not starts.size:
        return pa.nulls(len(texts), pa.timestamp("us", "UTC"))
    if (np.diff(offsets)[valid(texts)] < len("2026-01-01T12:00:00")).any():
        return None
    data = np.frombuffer(texts.buffers()[2], np.uint8)
    if (data[starts + 13] != ord(":")).any() or (data[starts + 16] != ord(":")).any():
        return None
    for unit, zone in (("us", "UTC"), ("us", None), ("ns", "UTC"), ("ns", None)):
        try:
            times = texts.cast(pa.timestamp(unit, zone))
        except pa.ArrowInvalid:
            continue
        times = times.cast(pa.timestamp("us", zone), safe=False)
        return times.cast(pa.timestamp("us", "UTC"))
    return None


def parse_time(text: str) -> int | None:
    """Return microseconds since 1970; a time without a zone is UTC."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        return None
    *parts, fraction, zone = match.groups()
    year, month, day, hour, minute, second = (int(p) if p else None for p in parts)
    try:
        time = dt.datetime(
            year or 0, month or 1, day or 1, hour or 0, minute or 0, second or 0,
            int((fraction or "0")[:6].ljust(6, "0")), tzinfo=_zone((zone or "").strip()),
        )  # fmt: skip
        return (time - _EPOCH) // dt.timedelta(microseconds=1)
    except (ValueError, KeyError, OSError):
        return None


def _zone(name: str) -> dt.tzinfo:
    """Return a zone; raise ValueError, KeyError or OSError if there is none of this name."""
    if match := _OFFSET.fullmatch(name):
        sign, hours, minutes, seconds = match.groups()
        offset = dt.timedelta(
            hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0)
        )
        if offset > dt.timedelta(hours=_MOST_HOURS):
            raise ValueError(name)
        return dt.timezone(-offset if sign == "-" else offset)
    return ZoneInfo(_SHORT_ZONES.get(name, name)) if name else dt.UTC


def parse_boolean(text: str) -> bool | None:
    """Return true or false, from the words and digits that Spark accepts."""
    word = text.strip().lower()
    return True if word in _TRUE else False if word in _FALSE else None


def parse_integer(text: str) -> int | None:
    """Return a 32-bit integer."""
    if not re.fullmatch(r"[+-]?[0-9]+", text.strip(), re.ASCII):
        return None
    value = int(text)
    return value if -(2**31) <= value < 2**31 else None


def from_json(value: Any, wanted: pa.DataType) -> Any:
    """Return a decoded JSON value (numbers as `Number`) as the wanted type, or BAD."""
    if value is None:
        return None
    if pa.types.is_string(wanted):
        return _id(value)
    if pa.types.is_list(wanted):
        if not isinstance(value, list):
            return BAD
        elements = [from_json(v, wanted.value_type) for v in value]
        return BAD if any(e is BAD for e in elements) else elements
    if pa.types.is_boolean(wanted):
        return value if isinstance(value, bool) else BAD
    parsed: int | None = None
    if isinstance(value, Number):
        whole_number = re.fullmatch(r"-?[0-9]{1,12}", value)
        parsed = int(value) if whole_number else None
        if pa.types.is_timestamp(wanted) and parsed is not None:
            parsed *= 1_000_000
        elif parsed is not None:
            parsed = parse_integer(value)
    elif isinstance(value, str) and pa.types.is_timestamp(wanted):
        parsed = parse_time(value)
    return BAD if parsed is None else parsed


def _id(value: Any) -> str:
    """Return a JSON value as a string; anything but a string as its JSON text."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()  # half a surrogate pair becomes "?"
    return _compact(value)


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
    lines = whole(lines)
    table = read_json(lines.buffers()[2], pa.schema([("v", wanted)]))
    return table["v"].combine_chunks() if table is not None and len(table) == len(texts) else None


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
    return None if parsed is BAD else parsed


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
