"""Graded feedback: the events of a document as its level, from 1 (the lowest gain) to the highest.

The column `feedback` holds a text per document (`warehouse/schema.py`). A level is an index: 0 is
no event. Distinct texts are parsed once.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import Lists, list_array, lists, valid, whole
from ulr.warehouse.schema import FEEDBACK

CLICK = "click"  # the event that the column `clicks` holds
UNKNOWN = 255  # the level of an event that has no name in the settings


@dataclass(frozen=True)
class Levels:
    """The events of a log. names: by ascending gain; () for a log of clicks only."""

    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, gains: Mapping[str, float] | None) -> Levels:
        """Return the levels of the setting `log.feedback`."""
        return cls(tuple(sorted(gains, key=gains.__getitem__)) if gains else ())

    @property
    def count(self) -> int:
        """The number of levels."""
        return max(len(self.names), 1)

    @property
    def click(self) -> int:
        """The level of a click: that of the event `click`, or the lowest."""
        return self.names.index(CLICK) + 1 if CLICK in self.names else 1

    def grade(self, text: str | None) -> int:
        """Return the highest level of the events in a text, or UNKNOWN."""
        if not text:
            return 0
        if text in self.names:
            return self.names.index(text) + 1
        if text.startswith("["):
            try:
                events = json.loads(text, strict=False)
            except ValueError:
                return UNKNOWN
            return max((self._grade_one(event) for event in events), default=0)
        return self._grade_one(text)

    def _grade_one(self, event: Any) -> int:
        if event is None or event == "":
            return 0
        if event in self.names:
            return self.names.index(event) + 1
        try:
            level = float(event)
        except (TypeError, ValueError):
            return UNKNOWN
        known = level.is_integer() and 0 <= level <= len(self.names)
        return int(level) if known and not isinstance(event, bool) else UNKNOWN


CLICKS_ONLY = Levels()


def graded_lists(column: pa.Array, levels: Levels) -> Lists:
    """Return the lists of a column (list of string) with levels (uint8) as elements."""
    starts, lengths, texts = lists(column)
    return Lists(starts, lengths, _grades(texts, levels))


def _grades(texts: pa.Array, levels: Levels) -> np.ndarray:
    if texts.null_count == len(texts):
        return np.zeros(len(texts), np.uint8)
    encoded = texts.dictionary_encode()
    table = np.array(
        [levels.grade(text) for text in encoded.dictionary.to_pylist()] + [0], np.uint8
    )
    codes = encoded.indices.fill_null(table.size - 1).to_numpy(zero_copy_only=False)
    graded: np.ndarray = table[codes]
    return graded


def as_events(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return a column of feedback as `wanted` (string, or a list of them), if its type allows it.

    A type that cannot hold events is returned as it is.
    """
    if not pa.types.is_list(wanted):
        typed = event_texts(column)
    else:
        typed = event_lists(column) if _is_list(column.type) else None
    return column if typed is None else typed


def event_texts(column: pa.Array) -> pa.Array | None:
    """Return events of any type as texts, one per row; None if the type has no events.

    Lists of events become JSON arrays. NaN, which pandas writes for null, is null.
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return event_texts(column.dictionary_decode())
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), None, column)
        return column.cast(pa.string())
    if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.string())
    return _array_texts(column) if _is_list(kind) else None


def event_lists(column: pa.Array) -> pa.Array | None:
    """Return lists of events of any type as lists of texts; None if the type has no events."""
    column = column.cast(pa.list_(column.type.value_type))
    offsets = np.array(column.offsets)  # a copy: Arrow takes no mask with a slice
    if pa.types.is_null(column.type.value_type):  # Arrow reads fewer nulls than there are
        texts = pa.nulls(int(offsets[-1]), pa.string())
    else:
        texts = event_texts(column.values)
    if texts is None:
        return None
    mask = pa.array(~valid(column)) if column.null_count else None
    return pa.ListArray.from_arrays(offsets, texts, mask=mask)


def _is_list(kind: pa.DataType) -> bool:
    tests = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in tests)


def _array_texts(column: pa.Array) -> pa.Array | None:
    """Return lists of texts or numbers as JSON arrays of texts; an empty list is null."""
    column = column.cast(pa.list_(column.type.value_type))
    texts = event_texts(column.flatten())
    if texts is None:
        return None
    for character in ("\\", '"'):
        texts = pc.replace_substring(texts, character, "\\" + character)
    quoted = pc.binary_join_element_wise('"', texts.fill_null(""), '"', "")
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, whole(quoted)), ",")
    arrays = pc.binary_join_element_wise("[", joined, "]", "")
    return pc.if_else(pa.array(lengths > 0), arrays, None)


def with_no_clicks(
    arrays: Sequence[pa.Array], schema: pa.Schema, present: Container[str]
) -> list[pa.Array]:
    """Return the columns of pages; a file with feedback and without clicks has no click.

    present: names of the columns that the file has. Columns of impressions are returned as given.
    """
    columns = list(arrays)
    if "clicks" not in schema.names or "clicks" in present or FEEDBACK not in present:
        return columns
    lengths = lists(columns[schema.get_field_index("doc_ids")]).lengths
    none = pa.array(np.zeros(lengths.sum(), bool))
    columns[schema.get_field_index("clicks")] = list_array(lengths, none)
    return columns
