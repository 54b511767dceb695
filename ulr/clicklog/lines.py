"""Blocks of whole lines from a byte range of a text file."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa

BLOCK_BYTES = 16 << 20
_TAIL_BYTES = 64 << 10  # read at a time past the end of a range, to the end of its last line


def read_blocks(stream: pa.NativeFile, start: int, end: int | None) -> Iterator[bytes]:
    """Yield the lines that begin in [start, end) in blocks of whole lines; end None: all lines.

    A range that does not begin with the file begins after the first line end at `start` - 1 or
    later, so that ranges side by side give each line once.
    """
    last_byte = sys.maxsize if end is None else end - 1
    at = max(start - 1, 0)
    if at:
        stream.seek(at)
    rest, skip = b"", start > 0
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
            if data:
                yield data
            return
        last = at > last_byte
        # The first line end at `last_byte` or later is that of the last line.
        cut = data.find(b"\n", max(last_byte - at + len(data), 0)) if last else data.rfind(b"\n")
        if cut >= 0:
            yield data[: cut + 1]
        if cut >= 0 and last:
            return
        rest = data[cut + 1 :]


def cut_lines(block: bytes, size: int) -> Iterator[bytes]:
    """Yield a block of lines in pieces of whole lines, each of about `size` bytes."""
    start = 0
    while start < len(block):
        cut = block.find(b"\n", min(start + size, len(block)) - 1)
        end = len(block) if cut < 0 else cut + 1
        yield block[start:end]
        start = end
