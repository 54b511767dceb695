"""LETOR / SVMLight text (`label qid:N 1:v 2:v ... # comment`) as columns.

Indices may be sparse and start at 1. A comment `docid = X` names the document; otherwise it is
the query id and the line's number within its query.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ulr.errors import UserError
from ulr.storage import open_filesystem

_DOCID = re.compile(r"docid\s*=\s*(\S+)")
_CHUNK = 1 << 24


@dataclass(frozen=True)
class JudgedDocuments:
    """Rows of a LETOR file, in file order; `features` is rows x width, absent values are 0."""

    query_ids: list[str]
    doc_ids: list[str]
    labels: np.ndarray
    features: np.ndarray


def read_letor(paths: Iterable[str]) -> JudgedDocuments:
    """Read one or more files (gzip by the name's end) into one set of rows."""
    queries: list[str] = []
    docs: list[str] = []
    labels: list[np.ndarray] = []
    blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    seen: dict[str, int] = {}
    for path in paths:
        for lines, number in _chunks(path):
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


def _chunks(path: str) -> Iterator[tuple[list[str], int]]:
    fs, name = open_filesystem(path)
    try:
        raw = fs.open_input_stream(name, compression=None)
    except FileNotFoundError:
        raise UserError(f"no LETOR file at {path!r}; give the path of an existing file") from None
    with raw, gzip.open(raw) if path.endswith(".gz") else raw as stream:
        rest, number = b"", 1
        while block := stream.read(_CHUNK):
            whole, newline, rest = (rest + block).rpartition(b"\n")
            if newline:
                lines = whole.decode().split("\n")
                yield lines, number
                number += len(lines)
        if rest:
            yield [rest.decode()], number


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
    pairs = [part[2] if len(part) > 2 else "" for part in parts]
    counts = np.array([text.count(":") for text in pairs], np.int64)
    try:
        label = np.array([part[0] for part in parts], float).astype(np.int32)
        numbers = np.array(" ".join(pairs).replace(":", " ").split(), float)
        flat = numbers.reshape(-1, 2)
    except ValueError as why:
        raise UserError(f"{path}, lines from {number}: {why}; features are index:value") from None
    docs = [found.group(1) if (found := _DOCID.search(note)) else "" for _, _, note in kept]
    pointers = np.concatenate([[0], np.cumsum(counts)])
    sparse = (pointers, flat[:, 0].astype(np.int64), flat[:, 1].astype(np.float32))
    return label, [part[1][4:] for part in parts], docs, sparse


def _densify(blocks: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> np.ndarray:
    width = max((int(index.max()) for _, index, _ in blocks if index.size), default=0)
    dense = []
    for pointers, index, value in blocks:
        block = np.zeros((pointers.size - 1, width), np.float32)
        block[np.repeat(np.arange(pointers.size - 1), np.diff(pointers)), index - 1] = value
        dense.append(block)
    return np.concatenate(dense)
