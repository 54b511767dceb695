"""Blocks of whole lines from a byte range of a text file."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa

from ulr.clicklog.contract import MAX_ROW_BYTES

BLOCK_BYTES = 16 << 20
KEPT_BYTES = 64 << 10  # of a line that is too long
_TAIL_BYTES = 64 << 10  # read at a time past the end of a range, to the end of its last line


class LongLine(bytes):
    """The beginning of a line of more than MAX_ROW_BYTES; the rest of the line is not kept."""

    __slots__ = ()


def read_blocks(stream: pa.NativeFile, start: int, end: int | None) -> Iterator[bytes]:
    """Yield the lines that begin in [start, end) in blocks of whole lines; end None: all lines.

    A range that does not begin with the file begins after the first line end at `start` - 1 or
    later, so that ranges side by side give each line once. A line of more than MAX_ROW_BYTES is a
    block of its own, a `LongLine`.
    """
    last_byte = sys.maxsize if end is None else end - 1
    at = max(start - 1, 0)
    if at:
        stream.seek(at)
    rest, skip = b"", start > 0  # skip: to the next line end, the line before it is dropped
    while True:
        left = min(BLOCK_BYTES, last_byte + 1 - at)
        chunk = stream.read(left if left > 0 else _TAIL_BYTES)
        at += len(chunk)
        data = rest + chunk
        if skip:
            skip = b"\n" not in data
            data = b"" if skip else data[data.find(b"\n") + 1 :]
            if at - len(data) > last_byte:
                return
        if not chunk:
            yield from _separate(data)
            return
        last = at > last_byte
        # The first line end at `last_byte` or later is that of the last line.
        cut = data.find(b"\n", max(last_byte - at + len(data), 0)) if last else data.rfind(b"\n")
        if cut >= 0:
            yield from _separate(data[: cut + 1])
        if cut >= 0 and last:
            return
        rest = data[cut + 1 :]
        if len(rest) > MAX_ROW_BYTES:
            # With `last`, this is the last line of the range, possibly with others before it.
            whole, newline, rest = rest.rpartition(b"\n")
            yield from _separate(whole + newline)
            if len(rest) > MAX_ROW_BYTES:
                yield LongLine(rest[:KEPT_BYTES])
                rest, skip = b"", True


def _separate(block: bytes) -> Iterator[bytes]:
    """Yield a block of whole lines, with lines of more than MAX_ROW_BYTES apart."""
    start = 0
    while len(block) - start > MAX_ROW_BYTES:
        end = block.find(b"\n", start) + 1 or len(block)
        if end - start > MAX_ROW_BYTES:
            yield LongLine(block[start : start + KEPT_BYTES])
        else:
            # As many lines as fit: the last line end within MAX_ROW_BYTES.
            end = block.rfind(b"\n", start, start + MAX_ROW_BYTES) + 1
            yield block[start:end]
        start = end
    if start < len(block):
        yield block[start:]


def cut_lines(block: bytes, size: int) -> Iterator[bytes]:
    """Yield a block of lines in pieces of whole lines, each of about `size` bytes."""
    start = 0
    while start < len(block):
        cut = block.find(b"\n", min(start + size, len(block)) - 1)
        end = len(block) if cut < 0 else cut + 1
        yield block[start:end]
        start = end
