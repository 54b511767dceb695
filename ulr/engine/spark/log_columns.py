"""The columns of a log as SQL expressions over a Spark table, checked before any job starts.

Spark evaluates `log.columns`; tasks receive the columns of the contract as Arrow batches. Rows are
described in quarantine by the columns of the log that their expressions use.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ulr.engine.names import missing_column
from ulr.engine.spark.catalog import CORRUPT, expressions, select, without_ansi
from ulr.errors import UserError

_PROBLEM, _RAW = "problem", "raw"
_FEATURES, _FEEDBACK, _RANKER = "features", "feedback", "ranker"
_OWN = "_own_"  # and a number: a column of the log
_GENERATOR = re.compile(r"\b(explode|posexplode|inline|stack)(_outer)?\s*\(", re.IGNORECASE)
_SIMPLE = (T.StringType, T.NumericType)
_TIMES = (T.StringType, T.NumericType, T.TimestampType, T.TimestampNTZType, T.DateType)
_FLAGS = (T.StringType, T.NumericType, T.BooleanType)


@dataclass(frozen=True)
class Contract:
    """What is known of a log's columns. optional: those that may be missing. first, end: of the
    times that are accepted."""

    schema: pa.Schema
    optional: Sequence[str]
    first: dt.datetime
    end: dt.datetime


def select_log(
    frame: DataFrame,
    columns: Mapping[str, str],
    contract: Contract,
    source: str,
    day: dt.date | None,
) -> DataFrame:
    """Return the columns of the contract, `problem` and `raw`; raise UserError for a wrong column.

    columns: name or SQL expression of the columns that have another name in the frame. day: the
    rows of other dates are left out where `shown_at` is a timestamp.
    """
    mapped = {name: columns.get(name) or _own(frame, name) for name in contract.schema.names}
    optional = contract.optional
    _check_required(frame, mapped, optional, source)
    chosen = expressions(
        frame, {n: text for n, text in mapped.items() if text}, setting="log.columns", source=source
    )
    own = {
        name: at
        for at, name in enumerate(frame.columns)
        if name == CORRUPT or any(_uses(mapped[n], name) for n in columns)
    }
    with without_ansi(frame.sparkSession):
        # Every expression once: Spark does not recognise equal lambdas.
        kept = [_quoted(name).alias(f"{_OWN}{at}") for name, at in own.items()]
        typed = select(frame, [*chosen.values(), *kept], setting="log.columns")
        _check_types(typed.select(*chosen), mapped)
        problem, raw = _problem(own, {n: mapped[n] for n in columns}, optional)
        rows = typed.select(*chosen, problem.alias(_PROBLEM), raw.alias(_RAW))
        if day is not None and isinstance(typed.schema["shown_at"].dataType, T.TimestampType):
            rows = rows.where(_on_day(day, contract))
    return rows


def unreadable_rows(frame: DataFrame) -> list[DataFrame]:
    """Return the lines of text files that Spark cannot read, as rows with a problem, if any can be.

    They are no rows of a query, or of a condition, over the files.
    """
    if CORRUPT not in frame.columns:
        return []
    # Spark refuses to read the column alone: a line is parsed only if others are used.
    others = F.to_json(F.struct(*[_quoted(c) for c in frame.columns if c != CORRUPT]))
    lines = frame.where(F.col(CORRUPT).isNotNull() & others.isNotNull())
    return [lines.select(F.lit("bad_type").alias(_PROBLEM), F.col(CORRUPT).alias(_RAW))]


def _own(frame: DataFrame, name: str) -> str:
    """Return the frame's column of a name as an expression, or "" if there is none."""
    return next((f"`{c}`" for c in frame.columns if c.lower() == name), "")


def _check_required(
    frame: DataFrame, mapped: Mapping[str, str], optional: Sequence[str], source: str
) -> None:
    if mapped.get(_FEEDBACK):
        optional = (*optional, "clicks", "clicked")
    missing = [n for n, text in mapped.items() if not text and n not in optional]
    if not missing:
        return
    other = "document, use log.layout=impression"
    if "doc_id" in mapped:
        other = "page, use log.layout=page"
    raise UserError(
        f"{missing_column(source, missing[0], frame.columns)}; name it, or an expression for it, "
        f"in log.columns.{missing[0]}; for one row per {other}"
    )


def _check_types(typed: DataFrame, mapped: Mapping[str, str]) -> None:
    """Raise UserError for a column of a type that is never one of the contract."""
    for field in typed.schema:
        kind, name = field.dataType, field.name
        if name == _FEEDBACK:  # texts, numbers or lists of them
            continue
        if name == _FEATURES:
            _check_vectors(kind, mapped)
            continue
        listed = name in ("doc_ids", "clicks")
        element = kind.elementType if listed and isinstance(kind, T.ArrayType) else kind
        if listed and element is kind and not isinstance(kind, T.StringType):
            allowed, fits = _ALLOWED[name], False
        else:
            allowed, fits = _ALLOWED[name], isinstance(element, _TYPES[name])
        if not fits and not isinstance(element, T.NullType):
            raise UserError(
                f"log.columns.{name} = {mapped[name]!r} is of type {kind.simpleString()}, "
                f"expected {allowed}"
            )


def _check_vectors(kind: T.DataType, mapped: Mapping[str, str]) -> None:
    """Raise UserError unless a column of the type can hold the vectors of features of a row."""
    depth, element = (2 if "doc_ids" in mapped else 1), kind
    while depth and isinstance(element, T.ArrayType):
        element, depth = element.elementType, depth - 1
    fits = isinstance(element, (T.NumericType, T.BooleanType, T.NullType)) and not depth
    if fits or isinstance(kind, (T.StringType, T.NullType)):
        return
    form = "a vector: an array of numbers, as in array(price, stock)"
    if "doc_ids" in mapped:
        form = (
            "an array of numbers for each document, as in "
            "transform(items, i -> array(i.price, i.stock))"
        )
    raise UserError(
        f"log.columns.{_FEATURES} = {mapped[_FEATURES]!r} is of type {kind.simpleString()}, "
        f"expected {form}; encode texts as numbers"
    )


_TYPES: dict[str, tuple[type[T.DataType], ...]] = {
    "session_id": _SIMPLE, "query_id": _SIMPLE, "doc_id": _SIMPLE, "doc_ids": _SIMPLE,
    "segment": _SIMPLE, "bucket": _SIMPLE, _RANKER: _SIMPLE, "shown_at": _TIMES,
    "position": _SIMPLE,
    "clicks": _FLAGS, "clicked": _FLAGS, "swapped": _FLAGS,
}  # fmt: skip
_TEXT, _FLAG = "a text or a number", "true and false, or 0 and 1"
_ALLOWED = {
    "session_id": _TEXT, "query_id": _TEXT, "doc_id": _TEXT, "segment": _TEXT, "bucket": _TEXT,
    _RANKER: _TEXT,
    "doc_ids": "an array of texts or numbers, as in transform(items, i -> i.id)",
    "shown_at": "a timestamp, a date, an epoch number or a text", "position": "an integer",
    "clicks": f"an array of {_FLAG}", "clicked": _FLAG, "swapped": _FLAG,
}  # fmt: skip


def _problem(
    own: Mapping[str, int], mapped: Mapping[str, str], optional: Sequence[str]
) -> tuple[Column, Column]:
    """Return the problem of each row, and its text if it has one.

    A row has a problem if Spark could not read its line, or if an expression gives null for a
    required column although no column that it uses is null: a cast failed.
    own: the place of each column of the log, which the rows have beside those of the contract.
    """
    bad, used = F.lit(False), dict[str, None]()
    for name, text in mapped.items():
        names = [c for c in own if _uses(text, c)]
        used |= dict.fromkeys(names)
        if name not in optional and names and not _GENERATOR.search(text):
            present = F.lit(True)
            for column in names:
                present &= F.col(f"{_OWN}{own[column]}").isNotNull()
            bad |= F.col(name).isNull() & present
    fields = [F.col(f"{_OWN}{own[column]}").alias(column) for column in used]
    texts = [F.to_json(F.struct(*fields))] if fields else []
    if CORRUPT in own:
        line = F.col(f"{_OWN}{own[CORRUPT]}")
        bad, texts = line.isNotNull() | bad, [line, *texts]
    if not texts:
        return F.lit(None).cast("string"), F.lit(None).cast("string")
    return F.when(bad, F.lit("bad_type")), F.when(bad, F.coalesce(*texts))


def _uses(text: str, column: str) -> bool:
    """Return whether an expression may use a column: it contains its name as a word."""
    return re.search(rf"(?<![\w.]){re.escape(column)}(?!\w)", text, re.IGNORECASE) is not None


def _quoted(column: str) -> Column:
    return F.col(f"`{column}`")


def _on_day(day: dt.date, contract: Contract) -> Column:
    """Return whether a row is of a UTC date; times that are null or out of range are kept."""
    start = dt.datetime(day.year, day.month, day.day, tzinfo=dt.timezone.utc)
    at = F.col("shown_at")
    first, end, accepted, after = (
        F.timestamp_micros(F.lit(int(t.timestamp()) * 1_000_000))
        for t in (start, start + dt.timedelta(days=1), contract.first, contract.end)
    )
    return at.isNull() | ((at >= first) & (at < end)) | (at < accepted) | (at >= after)
