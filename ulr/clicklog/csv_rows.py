"""Parse blocks of CSV lines. Arrow splits whole blocks into cells; lines that it rejects are split
singly.

Lists are JSON arrays: `["d1","d2"]`, `[true,false]`. An empty cell is null. A row with a cell that
is not of its column's type gets the problem bad_type, a line that is not UTF-8 gets bad_encoding,
and `raw` holds its cells as a JSON object.
A line with fewer cells than the header lacks the last columns; further cells are ignored.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv

from ulr.clicklog.encoding import is_utf8
from ulr.clicklog.events import with_no_clicks
from ulr.clicklog.lines import cut_lines
from ulr.clicklog.raw import shorten
from ulr.clicklog.values import parse_texts, typed_columns
from ulr.engine.columns import whole
from ulr.warehouse.schema import FEEDBACK

PIECE_BYTES = 64 << 10  # split again line by line if Arrow rejects it


def header_names(line: bytes) -> list[str]:
    """Return the column names of a header, which blank lines may precede."""
    return _split(line.decode("utf-8-sig", errors="replace").strip())


def parse_csv(
    block: bytes, schema: pa.Schema, folder: Mapping[str, str | None], names: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield the rows of a block of whole lines: the columns of the schema, `problem` and `raw`.

    folder: texts of columns that the file's folders define, unless they are among `names`.
    """
    places = {n: names.index(n) for n in schema.names if names.count(n) == 1}
    texts = _read_block(block, places, len(names))
    if texts is not None:
        yield _typed(texts, schema, folder)
        return
    for piece in cut_lines(block, PIECE_BYTES):
        texts = _read_block(piece, places, len(names))
        if texts is None:
            lines = [line for line in piece.splitlines() if line.strip()]
            wrong = np.array([not is_utf8(line) for line in lines], bool)
            yield _typed(_read_lines(lines, places), schema, folder, wrong)
        else:
            yield _typed(texts, schema, folder)


def _read_block(block: bytes, places: Mapping[str, int], width: int) -> pa.Table | None:
    """Return the cells of some columns; None if Arrow rejects a line, or one is not UTF-8."""
    if not is_utf8(block):
        return None
    numbers = [str(n) for n in range(width)]
    wanted = [numbers[at] for at in places.values()]
    read = pcsv.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=numbers)
    convert = pcsv.ConvertOptions(
        include_columns=wanted,
        column_types=dict.fromkeys(wanted, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
    )
    try:
        table = pcsv.read_csv(pa.BufferReader(block), read, convert_options=convert)
    except pa.ArrowInvalid:
        return None
    return table.rename_columns(list(places))


def _read_lines(lines: Sequence[bytes], places: Mapping[str, int]) -> pa.Table:
    rows = [_split(line.decode(errors="replace")) for line in lines]
    columns = [[r[at] or None if at < len(r) else None for r in rows] for at in places.values()]
    return pa.table([pa.array(c, pa.string()) for c in columns], names=list(places))


def _split(line: str) -> list[str]:
    csv.field_size_limit(sys.maxsize)
    return next(csv.reader([line.replace("\r", " ")]), [])  # csv rejects a carriage return


def _typed(
    texts: pa.Table,
    schema: pa.Schema,
    folder: Mapping[str, str | None],
    not_utf8: np.ndarray | None = None,
) -> pa.Table:
    """Parse every column; a text that is not valid makes its row a bad_type.

    not_utf8: rows (bool) in which bytes were replaced.
    """
    rows = texts.num_rows
    columns = {name: whole(texts[name]) for name in texts.column_names}
    for name, text in folder.items():
        columns.setdefault(name, pa.repeat(pa.scalar(text, pa.string()), rows))
    arrays, bad = typed_columns(columns, schema, rows, parse_texts)
    if FEEDBACK in schema.names:
        arrays = with_no_clicks(arrays, schema, columns)
    problem = np.where(bad, "bad_type", np.full(rows, None, object))
    if not_utf8 is not None:
        problem[not_utf8] = "bad_encoding"
        bad = bad | not_utf8
    known = pa.table({n: columns[n] for n in schema.names if n in columns})
    raw = np.full(rows, None, object)
    for at, row in zip(np.flatnonzero(bad), known.filter(pa.array(bad)).to_pylist(), strict=True):
        present = {name: text for name, text in row.items() if text is not None}
        raw[at] = shorten(json.dumps(present, ensure_ascii=False, separators=(",", ":")))
    names = [*schema.names, "problem", "raw"]
    return pa.table(
        [*arrays, pa.array(problem, pa.string()), pa.array(raw, pa.string())], names=names
    )
