"""Parse blocks of CSV lines. Arrow splits whole blocks into cells; lines that it rejects are split
singly.

Lists are JSON arrays: `["d1","d2"]`, `[true,false]`. An empty cell is null. A row with a cell that
is not of its column's type gets the problem bad_type, and `raw` holds its cells as a JSON object.
A line with fewer cells than the header lacks the last columns; further cells are ignored.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from ulr.clicklog.lines import cut_lines
from ulr.clicklog.values import parse_texts, typed_columns
from ulr.engine.columns import whole

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
        yield _typed(_read_lines(piece, places) if texts is None else texts, schema, folder)


def _read_block(block: bytes, places: Mapping[str, int], width: int) -> pa.Table | None:
    """Return the cells of some columns; None if Arrow rejects a line."""
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


def _read_lines(block: bytes, places: Mapping[str, int]) -> pa.Table:
    rows = [_split(line.decode(errors="replace")) for line in block.splitlines() if line.strip()]
    columns = [[r[at] or None if at < len(r) else None for r in rows] for at in places.values()]
    return pa.table([pa.array(c, pa.string()) for c in columns], names=list(places))


def _split(line: str) -> list[str]:
    csv.field_size_limit(sys.maxsize)
    return next(csv.reader([line]), [])


def _typed(texts: pa.Table, schema: pa.Schema, folder: Mapping[str, str | None]) -> pa.Table:
    """Parse every column; a text that is not valid makes its row a bad_type."""
    rows = texts.num_rows
    columns = {name: whole(texts[name]) for name in texts.column_names}
    for name, text in folder.items():
        columns.setdefault(name, pa.repeat(pa.scalar(text, pa.string()), rows))
    arrays, bad = typed_columns(columns, schema, rows, parse_texts)
    problem = pc.if_else(pa.array(bad), "bad_type", pa.scalar(None, pa.string()))
    known = pa.table({n: columns[n] for n in schema.names if n in columns})
    raw = np.full(rows, None, object)
    for at, row in zip(np.flatnonzero(bad), known.filter(pa.array(bad)).to_pylist(), strict=True):
        present = {name: text for name, text in row.items() if text is not None}
        raw[at] = json.dumps(present, ensure_ascii=False, separators=(",", ":"))
    names = [*schema.names, "problem", "raw"]
    return pa.table([*arrays, problem, pa.array(raw, pa.string())], names=names)
