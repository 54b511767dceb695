"""Batches of Parquet logs with the types of the contract.

The files of a log may differ in their columns and types. Values are cast if no information is lost.
A row with a value that cannot be cast, or with text that is not UTF-8, gets a problem, and `raw`
holds its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.clicklog.encoding import invalid_rows, remove_rows
from ulr.clicklog.events import as_events, with_no_clicks
from ulr.clicklog.numbers import flag_lists, flags, is_number, is_number_list
from ulr.clicklog.raw import row_text
from ulr.clicklog.times import epoch_times
from ulr.clicklog.values import parse_texts, typed_columns
from ulr.clicklog.vectors import as_vectors, is_vector
from ulr.engine.columns import without_views
from ulr.warehouse.schema import FEEDBACK, reading


def conform(
    batch: pa.RecordBatch,
    source: str,
    schema: pa.Schema,
    folder: Mapping[str, str | None] = MappingProxyType({}),
) -> pa.RecordBatch:
    """Return the batch with the columns of `reading(schema)`.

    A column that the batch lacks is taken from `folder`, or null.
    """
    rows = batch.num_rows
    columns = {n: pa.repeat(pa.scalar(v, pa.string()), rows) for n, v in folder.items()}
    columns |= zip(batch.schema.names, map(without_views, batch.columns), strict=True)
    if FEEDBACK in schema.names and FEEDBACK in columns:
        columns[FEEDBACK] = as_events(columns[FEEDBACK], schema.field(FEEDBACK).type)
    arrays, bad_type = typed_columns(columns, schema, rows, _cast)
    bad_encoding = np.zeros(rows, bool)
    for at, column in enumerate(arrays):
        if (wrong := invalid_rows(column)) is not None:
            bad_encoding |= wrong
            arrays[at] = remove_rows(column, wrong)
    if FEEDBACK in schema.names:
        arrays = with_no_clicks(arrays, schema, columns)
    problems = {"bad_encoding": bad_encoding, "bad_type": bad_type & ~bad_encoding}
    return with_problems(batch, arrays, problems, source, schema)


def with_problems(
    batch: pa.RecordBatch,
    arrays: list[pa.Array],
    problems: Mapping[str, np.ndarray],
    source: str,
    schema: pa.Schema,
) -> pa.RecordBatch:
    """Return the typed columns of a batch with `source`, `problem`, `raw` and `repeats`.

    problems: the rows (bool) of each problem, as they are in `batch`.
    """
    rows = batch.num_rows
    problem, raw = pa.nulls(rows, pa.string()), pa.nulls(rows, pa.string())
    if any(chosen.any() for chosen in problems.values()):
        names, texts = np.full(rows, None, object), np.full(rows, None, object)
        for name, chosen in problems.items():
            names[chosen] = name
            texts[chosen] = [row_text(batch.slice(at, 1)) for at in np.flatnonzero(chosen)]
        problem, raw = pa.array(names, pa.string()), pa.array(texts, pa.string())
    zeros = pa.repeat(pa.scalar(0, pa.int32()), rows)
    added = [pa.DictionaryArray.from_arrays(zeros, [source]), problem, raw, zeros]
    return pa.RecordBatch.from_arrays([*arrays, *added], schema=reading(schema, inside=True))


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast a column; a value that cannot be cast becomes null.

    Arrow reports that there is such a value, not which: it is found by halving the column. Times
    are truncated to microseconds, since pandas writes nanoseconds.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_vector(wanted) and not _is_text(column.type):
        return as_vectors(column, wanted)
    if (typed := _cast_numbers(column, wanted)) is not None:
        return typed
    options = pc.CastOptions(wanted, allow_time_truncate=True, allow_invalid_utf8=True)
    try:
        return pc.cast(column, options=options)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError):
        return pa.nulls(len(column), wanted)
    except pa.ArrowInvalid:
        if len(column) == 1:
            return pa.nulls(1, wanted)
    # take, not slice: the cast of a slice of lists also casts the values of the other rows.
    halves = np.array_split(np.arange(len(column)), 2)
    return pa.concat_arrays([_cast(column.take(pa.array(half)), wanted) for half in halves])


def _cast_numbers(column: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Return numbers as times or flags, texts as times or lists; None if Arrow's cast is right."""
    kind = column.type
    if pa.types.is_timestamp(wanted):
        if is_number(kind):
            return epoch_times(column)
        if _is_text(kind):
            return _from_texts(column, wanted)
    if pa.types.is_boolean(wanted) and is_number(kind):
        return flags(column)
    if pa.types.is_list(wanted):
        if _is_text(kind):
            return _from_texts(column, wanted)
        if pa.types.is_boolean(wanted.value_type) and is_number_list(kind):
            return flag_lists(column)
    return None


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _from_texts(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return texts as times, or JSON arrays as lists."""
    texts = pc.cast(column, pa.string())
    wrong = invalid_rows(texts)
    return parse_texts(texts if wrong is None else remove_rows(texts, wrong), wanted)
