"""Read LETOR / SVMLight text: `label qid:N 1:v 2:v ... # comment`.

Indices may be sparse and start at 1. A comment `docid = X` names the document; otherwise its name
is the query id and the line's number within the query. Written by hand because scikit-learn's
reader drops document ids and text query ids, and does not report the line of an error.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow.fs as pafs

from ulr.errors import InvalidData, UserError
from ulr.kernels.layout import Ragged
from ulr.warehouse.filesystem import open_filesystem

MAX_INDEX = 1_000_000
MAX_LABEL = 30  # gains are 2^label
_DOCID = re.compile(r"docid\s*=\s*(\S+)")
_CHUNK_BYTES = 1 << 24


@dataclass(frozen=True)
class JudgedDocuments:
    """Rows of LETOR files in file order.

    labels: int32. features: float32, rows x width; values that are not given are 0.
    """

    query_ids: list[str]
    doc_ids: list[str]
    labels: np.ndarray
    features: np.ndarray


class _Lines(NamedTuple):
    """Parsed lines: features as (rows, indices from 1, values); doc_ids may be ''."""

    labels: np.ndarray
    query_ids: list[str]
    doc_ids: list[str]
    features: tuple[Ragged, np.ndarray, np.ndarray]


def read_letor(paths: Iterable[str], fs: pafs.FileSystem | None = None) -> JudgedDocuments:
    """Read one or more files (gzip if the name ends in .gz).

    fs: the filesystem of the paths; without it every path is a URL or a local path.
    """
    paths = list(paths)
    blocks: list[_Lines] = []
    doc_ids: list[str] = []
    rows_of: Counter[str] = Counter()
    for path in paths:
        for lines, number in _chunks(path, fs):
            block = _parse_lines(lines, path, number)
            blocks.append(block)
            for query, doc in zip(block.query_ids, block.doc_ids, strict=True):
                rows_of[query] += 1
                doc_ids.append(doc or f"{query}-{rows_of[query]}")
    if not doc_ids:
        raise InvalidData(f"no rows in {paths}; expected lines such as '2 qid:10 1:0.5 2:3'")
    return JudgedDocuments(
        query_ids=list(chain.from_iterable(b.query_ids for b in blocks)),
        doc_ids=doc_ids,
        labels=np.concatenate([b.labels for b in blocks]),
        features=_densify([b.features for b in blocks]),
    )


def _chunks(path: str, fs: pafs.FileSystem | None) -> Iterator[tuple[list[str], int]]:
    """Yield some lines of the file at a time, with the number of the first."""
    fs, name = (fs, path) if fs else open_filesystem(path)
    try:
        raw = fs.open_input_stream(name, compression=None)
    except FileNotFoundError:
        raise UserError(f"no LETOR file at {path!r}; give the path of an existing file") from None
    with raw, gzip.open(raw) if path.endswith(".gz") else raw as stream:
        rest, number = b"", 1
        while block := _read(stream, path):
            complete, newline, rest = (rest + block).rpartition(b"\n")
            if newline:
                lines = _text(complete, path).split("\n")
                yield lines, number
                number += len(lines)
        if rest:
            yield [_text(rest, path)], number


def _read(stream: Any, path: str) -> bytes:
    try:
        block: bytes = stream.read(_CHUNK_BYTES)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InvalidData(f"{path} is a damaged gzip file: {error}; write it again") from None
    return block


def _text(content: bytes, path: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidData(
            f"{path} is not UTF-8 text: {error.reason}; expected LETOR lines"
        ) from None


def _parse_lines(lines: list[str], path: str, number: int) -> _Lines:
    """Parse lines of a file; number: that of the first line, for error messages."""
    split = [(i, *line.partition("#")) for i, line in enumerate(lines)]
    rows = [(i, body.split(None, 2), comment) for i, body, _, comment in split if body.strip()]

    def refuse(row: int, rule: str) -> InvalidData:
        i = rows[row][0]
        return InvalidData(f"{path}, line {number + i}: {lines[i][:60]!r}{rule}")

    for row, (_, fields, _) in enumerate(rows):
        if len(fields) < 2 or not fields[1].startswith("qid:"):
            raise refuse(row, " is not 'label qid:N 1:v 2:v ...'")
    texts = [(fields[2] if len(fields) > 2 else "") for _, fields, _ in rows]
    counts = np.array([text.count(":") for text in texts], np.int64)
    numbers = [text.replace(":", " ").split() for text in texts]
    try:
        labels = np.array([fields[0] for _, fields, _ in rows], float)
        flat = np.array(list(chain.from_iterable(numbers)), float)
    except ValueError as error:
        raise InvalidData(
            f"{path}, lines from {number}: {error}; features are index:value"
        ) from None
    broken = _broken_row(labels, counts, np.array([len(n) for n in numbers], np.int64), flat)
    if broken is not None:
        raise refuse(*broken)
    names = [_DOCID.search(comment) for _, _, comment in rows]
    return _Lines(
        labels.astype(np.int32),
        [fields[1].removeprefix("qid:") for _, fields, _ in rows],
        [name.group(1) if name else "" for name in names],
        (Ragged.from_lengths(counts), flat[::2].astype(np.int64), flat[1::2].astype(np.float32)),
    )


def _broken_row(
    labels: np.ndarray, counts: np.ndarray, numbers: np.ndarray, flat: np.ndarray
) -> tuple[int, str] | None:
    """Return the first row that breaks a rule, and the rule.

    counts, numbers: colons and numbers of each row; flat: all numbers in turn.
    """
    broken = ~np.isin(labels, np.arange(MAX_LABEL + 1))
    if broken.any():
        return int(np.argmax(broken)), f": a label is 0, 1, ... {MAX_LABEL}"
    broken = numbers != 2 * counts
    if not broken.any():  # only then is every other number an index
        index = flat[::2]
        wrong = (index < 1) | (index > MAX_INDEX) | (index != np.floor(index))
        broken[Ragged.from_lengths(counts).owner()[wrong]] = True
    if not broken.any():
        return None
    rule = f": features are index:value, with whole indices from 1 to {MAX_INDEX:,}"
    return int(np.argmax(broken)), rule


def _densify(blocks: list[tuple[Ragged, np.ndarray, np.ndarray]]) -> np.ndarray:
    width = max((int(index.max()) for _, index, _ in blocks if index.size), default=0)
    dense = []
    for rows, index, value in blocks:
        block = np.zeros((rows.lengths.size, width), np.float32)
        block[rows.owner(), index - 1] = value
        dense.append(block)
    return np.concatenate(dense)
