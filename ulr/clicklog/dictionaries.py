"""The longest value in the dictionary of a Parquet column chunk, from its dictionary page alone.

Arrow reads a dictionary only together with values, which costs about four times more. The page is
parsed strictly: the result is None for everything that the common writers do not write, and the
caller then lets Arrow read the dictionary. A result also bounds what Arrow decodes if the page was
manipulated: Arrow starts at the same page, takes the same sizes from its header, and refuses a
second dictionary.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ulr.kernels.byte_arrays import longest_byte_array

MAX_PAGE_BYTES = 16 << 20  # by default, writers end a dictionary at 1 MiB
_HEADER_BYTES = 64
# LZ4 is the raw format: pyarrow has another name for Hadoop's frames.
_CODECS = {"SNAPPY": "snappy", "GZIP": "gzip", "BROTLI": "brotli", "ZSTD": "zstd", "LZ4": "lz4_raw"}
_DICTIONARY_PAGE = 2
_DATA_PAGES = (b"\x15\x00", b"\x15\x06")  # how the headers of versions 1 and 2 begin
_PLAIN_ENCODINGS = (0, 2)  # 2 is PLAIN_DICTIONARY, which older writers name for the same bytes
# Thrift's compact protocol: the increment of the field's number in the upper four bits, its type
# in the lower four.
_NEXT_INT, _STOP = 0x15, 0x00
_NEXT_BOOLEAN = (0x11, 0x12)
_DICTIONARY_HEADER, _DICTIONARY_HEADER_AFTER_CRC = 0x4C, 0x3C


class PageHeader(NamedTuple):
    """The header of a dictionary page: bytes of the header and of the page, number of values."""

    size: int
    uncompressed: int
    compressed: int
    values: int


def longest_value(stream: pa.NativeFile, column: pq.ColumnChunkMetaData, enough: int) -> int | None:
    """Return a bound on the length in bytes of the longest value in a column chunk's dictionary.

    The bound is exact if it is more than `enough`; else the page may not be decompressed. It is 0
    if the metadata names no dictionary and the chunk begins with a page of data.
    """
    stored = _read_first_page(stream, column)
    if stored.startswith(_DATA_PAGES) and not column.has_dictionary_page:
        return 0
    header = parse_header(stored[:_HEADER_BYTES])
    if header is None or header.size + header.compressed > len(stored):
        return None
    if header.uncompressed <= min(enough, MAX_PAGE_BYTES):
        return header.uncompressed
    page = _decompressed(stored, header, column.compression)
    if page is None:
        return None
    longest = longest_byte_array(np.frombuffer(page, np.uint8), header.values)
    return longest if longest >= 0 else None


def _read_first_page(stream: pa.NativeFile, column: pq.ColumnChunkMetaData) -> bytes:
    """Return the dictionary page with its header, or the beginning of another first page.

    Some writers do not name the place of the dictionary: the data then begin with it.
    """
    data, start = column.data_page_offset, column.dictionary_page_offset
    start, size = (data, _HEADER_BYTES) if start is None else (start, data - start)
    if not 0 < start < stream.size() or not 0 < size <= MAX_PAGE_BYTES:
        return b""
    stored: bytes = stream.read_at(size, start)
    header = parse_header(stored) if start == data else None
    if header is not None and header.compressed <= MAX_PAGE_BYTES:
        stored = stream.read_at(header.size + header.compressed, start)
    return stored


def parse_header(data: bytes) -> PageHeader | None:
    """Return the header at the beginning of `data`, or None if it is not a dictionary page's."""
    fields = _Fields(data)
    try:
        if fields.integer() != _DICTIONARY_PAGE:
            return None
        uncompressed, compressed = fields.integer(), fields.integer()
        if fields.peek() == _NEXT_INT:
            fields.integer()  # the checksum
            fields.expect(_DICTIONARY_HEADER_AFTER_CRC)
        else:
            fields.expect(_DICTIONARY_HEADER)
        values, encoding = fields.integer(), fields.integer()
        if fields.peek() in _NEXT_BOOLEAN:
            fields.expect(*_NEXT_BOOLEAN)  # whether the dictionary is sorted
        fields.expect(_STOP)
        fields.expect(_STOP)
    except (ValueError, IndexError):
        return None
    if encoding not in _PLAIN_ENCODINGS or min(uncompressed, compressed, values) < 0:
        return None
    return PageHeader(fields.at, uncompressed, compressed, values)


class _Fields:
    """Reads consecutive fields; raises ValueError or IndexError for anything unexpected."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def peek(self) -> int:
        return self.data[self.at]

    def expect(self, *allowed: int) -> None:
        if self.peek() not in allowed:
            raise ValueError("another field")
        self.at += 1

    def integer(self) -> int:
        """Return the next field, an int32 (zigzag, seven bits per byte, lowest first)."""
        self.expect(_NEXT_INT)
        value = shift = 0
        while True:
            byte = self.peek()
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if value >> 32 or shift > 35:
                raise ValueError("more than 32 bits")
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)


def _decompressed(stored: bytes, header: PageHeader, compression: str) -> bytes | pa.Buffer | None:
    page = memoryview(stored)[header.size : header.size + header.compressed]
    if compression == "UNCOMPRESSED":
        return bytes(page) if header.compressed == header.uncompressed else None
    if compression not in _CODECS or header.uncompressed > MAX_PAGE_BYTES:
        return None
    try:
        codec = pa.Codec(_CODECS[compression])
        return codec.decompress(page, header.uncompressed)
    except (pa.ArrowException, OSError):  # damaged, or a codec that this Arrow does not have
        return None
