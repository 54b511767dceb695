"""Times of a log: ISO 8601 texts and epoch numbers as UTC microseconds.

The rules for texts are those of Spark's casts: parts may be missing, any zone is accepted, and a
time without a zone is UTC. The unit of an epoch number (seconds, milliseconds, microseconds or
nanoseconds) follows from its magnitude: between 2000 and 2100 the four ranges do not overlap.
Whole columns are parsed by Arrow and numpy. `parse_time` is for texts that Arrow does not accept,
and defines which texts are valid.
"""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import valid
from ulr.warehouse.schema import TIMESTAMP

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
# The times that the contract accepts: [first, end).
FIRST_TIME, END_TIME = (dt.datetime(year, 1, 1, tzinfo=dt.timezone.utc) for year in (2000, 2101))

# Epoch numbers below a magnitude, and what one unit is in microseconds.
_UNITS = ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0), (2.0**63, 1e-3))
_EPOCH_TEXT = re.compile(r"[0-9]{9,19}(?:\.[0-9]*)?", re.ASCII)  # fewer digits: a year or a date
_SHORTEST_EPOCH = 9
_WHOLE = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_TIME = re.compile(
    r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[T ]([0-9]{1,2})(?::([0-9]{1,2})"
    r"(?::([0-9]{1,2})(?:\.([0-9]*))?(.*))?)?)?)?)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?")
_SHORT_ZONES = {"PST": "America/Los_Angeles", "CST": "America/Chicago", "JST": "Asia/Tokyo",
                "IST": "Asia/Kolkata", "Z": "UTC", "UT": "UTC", "GMT": "UTC"}  # fmt: skip
_MOST_HOURS = 18


def out_of_range(times: pa.Array) -> np.ndarray | None:
    """Return which times (bool) the contract does not accept; None if there are none."""
    bounds = pc.min_max(times)
    first, end = (pa.scalar(t, TIMESTAMP) for t in (FIRST_TIME, END_TIME))
    if not bounds["min"].is_valid or (
        bounds["min"].value >= first.value and (bounds["max"].value < end.value)
    ):
        return None
    outside = pc.or_(pc.less(times, first), pc.greater_equal(times, end))
    return outside.fill_null(False).to_numpy(zero_copy_only=False)


def epoch_times(numbers: pa.Array) -> pa.Array:
    """Return integers or floating-point numbers as times; one that is no time gives null."""
    if pa.types.is_uint64(numbers.type) or pa.types.is_decimal(numbers.type):
        numbers = pc.cast(numbers, pa.float64(), safe=False)
    present = valid(numbers)
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    if values.dtype.kind == "f":
        values = values.astype(np.float64)
        present &= np.abs(values) < _UNITS[-1][0]  # false for NaN
        values = np.where(present, values, 0.0)
    else:
        values = values.astype(np.int64)
    return pa.array(_microseconds(values), TIMESTAMP, mask=~present)


def _microseconds(values: np.ndarray) -> np.ndarray:
    """Scale epoch numbers (int64 or float64) to microseconds: int64."""
    magnitude = np.abs(values.astype(np.float64))
    scaled = np.zeros(values.shape, np.int64)
    below = 0.0
    for limit, unit in _UNITS:
        chosen = (magnitude >= below) & (magnitude <= limit if unit < 1 else magnitude < limit)
        part = values[chosen]
        if part.dtype.kind == "f":
            scaled[chosen] = np.rint(part * unit).astype(np.int64)
        else:
            scaled[chosen] = part // 1000 if unit < 1 else part * np.int64(unit)
        below = limit
    return scaled


def epoch_texts(texts: pa.Array) -> pa.Array | None:
    """Return texts that are all whole epoch numbers as times; None if one is not."""
    lengths = pc.binary_length(texts)
    if (pc.min(lengths).as_py() or 0) < _SHORTEST_EPOCH:
        return None
    try:
        return epoch_times(texts.cast(pa.int64()))
    except pa.ArrowInvalid:
        return None


def parse_epoch(text: str) -> int | None:
    """Return a number as microseconds since 1970, None if it is no time."""
    try:
        number: int | float = int(text) if _WHOLE.fullmatch(text) else float(text)
    except ValueError:
        return None
    time = epoch_times(pa.array([number]))[0]
    return time.value if time.is_valid else None


def iso_times(texts: pa.Array) -> pa.Array | None:
    """Return ISO 8601 times to the second or finer as UTC microseconds; None if Arrow rejects one.

    Times without a zone are UTC. Digits past microseconds are cut.
    """
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset :][: len(texts) + 1]
    starts = offsets[:-1][valid(texts)]
    if not starts.size:
        return pa.nulls(len(texts), TIMESTAMP)
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
        return times.cast(TIMESTAMP)
    return None


def parse_time(text: str) -> int | None:
    """Return microseconds since 1970; a time without a zone is UTC, nine digits are an epoch."""
    text = text.strip()
    if _EPOCH_TEXT.fullmatch(text):
        return parse_epoch(text)
    match = _TIME.fullmatch(text)
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
    except (ValueError, KeyError, OSError, OverflowError):
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
    return ZoneInfo(_SHORT_ZONES.get(name, name)) if name else dt.timezone.utc
