"""Judgments as CSV text.

A name with commas, quotes, line breaks or spaces at its ends is quoted, so that it stays one field.
The names are those of the log: a workbench joins its documents by them. Programs for spreadsheets
compute a field that begins with one of =+-@, quoted or not; `spreadsheet` puts an apostrophe before
it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import whole
from ulr.judgment.counts import DOCUMENT
from ulr.judgment.prior import Prior

NAMES = ("query", "docid", "rating", "lower", "upper", "clicks", "impressions", "examined")
BARE = NAMES[:3]
_RATINGS = ("rating", "lower", "upper")
_DECIMALS = 6
_FORMULA = "^[=+\\-@\t\r]"
_NEEDS_QUOTES = '[",\r\n]|^\\s|\\s$'


@dataclass(frozen=True)
class Layout:
    """How judgments are written.

    bare: without interval and support. grades: the highest, of 0 to `grades`; 0: ratings are
    relevances. spreadsheet: keep names from being computed.
    """

    prior: Prior
    bare: bool = False
    grades: int = 0
    spreadsheet: bool = False

    @property
    def header(self) -> bytes:
        """The first line."""
        return (",".join(BARE if self.bare else NAMES) + "\n").encode()


def csv_text(judgments: pa.Table, layout: Layout) -> bytes:
    """Return the lines of judgments (`judgments_schema`), without a header."""
    columns = [_quoted(_name(judgments[name], layout)) for name in DOCUMENT]
    for name in (BARE if layout.bare else NAMES)[len(DOCUMENT) :]:
        values = judgments[name]
        if name in _RATINGS and layout.grades:
            values = pa.array(grade(whole(values).to_numpy(), layout.prior, layout.grades))
        elif pa.types.is_floating(values.type):
            values = pc.round(values, _DECIMALS)
        columns.append(values.cast(pa.string()))
    columns = [whole(column) for column in columns]
    lines = pc.binary_join_element_wise(*columns, ",")
    lines = pc.binary_join_element_wise(lines, "", "\n")
    text = pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "")[0]
    return str(text.as_py()).encode()


def grade(relevance: np.ndarray, prior: Prior, highest: int) -> np.ndarray:
    """Return grades (int64) that all documents have equally often under the prior."""
    grades = np.floor(prior.below(relevance) * (highest + 1)).astype(np.int64)
    return np.minimum(grades, highest)


def _quoted(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return names as fields: in quotes only where they need them, for readers that know none."""
    doubled = pc.replace_substring(column, '"', '""')
    quoted = pc.binary_join_element_wise('"', doubled, '"', "")
    return pc.if_else(pc.match_substring_regex(column, _NEEDS_QUOTES), quoted, column)


def _name(column: pa.ChunkedArray, layout: Layout) -> pa.ChunkedArray:
    if not layout.spreadsheet:
        return column
    computed = pc.match_substring_regex(column, _FORMULA)
    return pc.if_else(computed, pc.binary_join_element_wise("'", column, ""), column)
