"""Find text that is not UTF-8. Arrow does not check it when it reads Parquet or JSON."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ulr.engine.columns import lists
from ulr.kernels.layout import offsets_of

_ASCII_END = 0x80


def is_utf8(content: bytes) -> bool:
    """Return whether bytes are valid UTF-8, without a copy."""
    return content.isascii() or _is_valid(_as_text(content))


def _as_text(content: bytes) -> pa.Array:
    offsets = pa.py_buffer(np.array([0, len(content)], np.int64))
    return pa.Array.from_buffers(pa.large_string(), 1, [None, offsets, pa.py_buffer(content)])


def _is_valid(texts: pa.Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def invalid_rows(column: pa.Array) -> np.ndarray | None:
    """Return which rows (bool) of strings, or of lists of strings, are not UTF-8; None: no row."""
    if pa.types.is_string(column.type):
        return _invalid_texts(column)
    if not (pa.types.is_list(column.type) and pa.types.is_string(column.type.value_type)):
        return None
    starts, lengths, values = lists(column)
    wrong = _invalid_texts(values)
    if wrong is None:
        return None
    before = offsets_of(wrong)
    return before[starts + lengths] > before[starts]


def _invalid_texts(texts: pa.Array) -> np.ndarray | None:
    """Look at single texts only if there are other bytes than ASCII, and these are not UTF-8."""
    data = texts.buffers()[2] if len(texts) else None
    if data is None or not data.size or np.frombuffer(data, np.uint8).max() < _ASCII_END:
        return None
    if _is_valid(texts):
        return None
    return np.array([not _decodes(b) for b in texts.cast(pa.binary()).to_pylist()], bool)


def _decodes(content: bytes | None) -> bool:
    try:
        return content is None or content.decode() is not None
    except UnicodeDecodeError:
        return False


def remove_rows(column: pa.Array, wrong: np.ndarray) -> pa.Array:
    """Return a column with null in some rows (bool)."""
    return column.take(pa.array(np.arange(len(column)), mask=wrong))
