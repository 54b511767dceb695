"""LETOR / SVMLight text (`label qid:N 1:v 2:v ... # comment`) as columns.

Indices may be sparse and start at 1. A comment `docid = X` names the document; otherwise it is
the query id and the line's number within its query.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow.fs as pafs

from ulr.errors import UserError
from ulr.warehouse.storage import open_filesystem

_DOCID = re.compile(r"docid\s*=\s*(\S+)")
_CHUNK = 1 << 24
MAX_INDEX = 1_000_000
MAX_LABEL = 30  # gains are 2^label


@dataclass(frozen=True)
class JudgedDocuments:
    """Rows of a LETOR file, in file order; `features` is rows x width, absent values are 0."""

    query_ids: list[str]
    doc_ids: list[str]
    labels: np.ndarray
    features: np.ndarray


def read_letor(paths: Iterable[str], fs: pafs.FileSystem | None = None) -> JudgedDocuments:
    """Read one or more files (gzip by the name's end) into one set of rows.

    fs: where the files are, named as it spells them; without it every path is a URL or local.
    """
    queries: list[str] = []
    docs: list[str] = []
    labels: list[np.ndarray] = []
    blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    seen: dict[str, int] = {}
    for path in paths:
        for lines, number in _chunks(path, fs):
            label, query, doc, sparse = _parse_lines(lines, path, number)
            labels.append(label)
            queries += query
            for q, d in zip(query, doc, strict=True):
                seen[q] = seen.get(q, 0) + 1
                docs.append(d or f"{q}-{seen[q]}")
            blocks.append(sparse)
    if not queries:
        raise UserError(f"no rows in {list(paths)}; expected lines such as '2 qid:10 1:0.5 2:3'")
    return JudgedDocuments(queries, docs, np.concatenate(labels), _densify(blocks))


def _chunks(path: str, fs: pafs.FileSystem | None) -> Iterator[tuple[list[str], int]]:
    fs, name = (fs, path) if fs else open_filesystem(path)
    try:
        raw = fs.open_input_stream(name, compression=None)
    except FileNotFoundError:
        raise UserError(f"no LETOR file at {path!r}; give the path of an existing file") from None
    with raw, gzip.open(raw) if path.endswith(".gz") else raw as stream:
        rest, number = b"", 1
        while block := stream.read(_CHUNK):
            whole, newline, rest = (rest + block).rpartition(b"\n")
            if newline:
                lines = _text(whole, path).split("\n")
                yield lines, number
                number += len(lines)
        if rest:
            yield [_text(rest, path)], number


def _text(content: bytes, path: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as why:
        raise UserError(f"{path} is not UTF-8 text: {why.reason}; expected LETOR lines") from None


def _parse_lines(lines: list[str], path: str, number: int) -> tuple:
    """Labels, query ids, document names, and (row pointers, feature indices, values)."""
    kept = [(i, body, note) for i, line in enumerate(lines) for body, _, note in
            [line.partition("#")] if body.strip()]  # fmt: skip
    parts = [body.split(None, 2) for _, body, _ in kept]
    for (i, _, _), part in zip(kept, parts, strict=True):
        if len(part) < 2 or not part[1].startswith("qid:"):
            raise UserError(
                f"{path}, line {number + i}: {lines[i][:60]!r} is not 'label qid:N 1:v 2:v ...'"
            )
    pairs = [(part[2] if len(part) > 2 else "") for part in parts]
    counts = np.array([text.count(":") for text in pairs], np.int64)
    words = [text.replace(":", " ").split() for text in pairs]
    try:
        label = np.array([part[0] for part in parts], float)
        flat = np.array(list(chain.from_iterable(words)), float)
    except ValueError as why:
        raise UserError(f"{path}, lines from {number}: {why}; features are index:value") from None
    at, rule = _broken_row(label, counts, np.array([len(w) for w in words], np.int64), flat)
    if at is not None:
        i = kept[at][0]
        raise UserError(f"{path}, line {number + i}: {lines[i][:60]!r}: {rule}")
    docs = [found.group(1) if (found := _DOCID.search(note)) else "" for _, _, note in kept]
    pointers = np.concatenate([[0], np.cumsum(counts)])
    sparse = (pointers, flat[::2].astype(np.int64), flat[1::2].astype(np.float32))
    return label.astype(np.int32), [part[1][4:] for part in parts], docs, sparse


def _broken_row(
    label: np.ndarray, counts: np.ndarray, words: np.ndarray, flat: np.ndarray
) -> tuple[int | None, str]:
    """The first row that breaks a rule, and the rule; counts: colons, words: numbers of each."""
    broken = ~np.isin(label, np.arange(MAX_LABEL + 1))
    if broken.any():
        return int(np.argmax(broken)), f"a label is 0, 1, ... {MAX_LABEL}"
    broken = words != 2 * counts
    if not broken.any():  # only now is every other number an index
        index = flat[::2]
        wrong = (index < 1) | (index > MAX_INDEX) | (index != np.floor(index))
        broken[np.repeat(np.arange(counts.size), counts)[wrong]] = True
    rule = f"features are index:value, with whole indices from 1 to {MAX_INDEX:,}"
    return (int(np.argmax(broken)) if broken.any() else None), rule


def _densify(blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
    width = max((int(index.max()) for _, index, _ in blocks if index.size), default=0)
    dense = []
    for pointers, index, value in blocks:
        block = np.zeros((pointers.size - 1, width), np.float32)
        block[np.repeat(np.arange(pointers.size - 1), np.diff(pointers)), index - 1] = value
        dense.append(block)
    return np.concatenate(dense)
