"""The longest value in a dictionary page, against the values that were written."""

from __future__ import annotations

import io
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ulr.clicklog import batches
from ulr.clicklog.dictionaries import PageHeader, longest_value, parse_header
from ulr.kernels.byte_arrays import longest_byte_array

CODECS = ["none", "snappy", "gzip", "brotli", "zstd", "lz4"]


def file_of(column: pa.Array, codec: str = "zstd", **options: object) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": column}), sink, compression=codec, **options)
    return sink.getvalue()


def longest_in(data: bytes, enough: int = 0) -> int | None:
    column = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0)
    return longest_value(pa.BufferReader(data), column, enough)


def dictionary_page(data: bytes) -> tuple[int, PageHeader]:
    """Return where the page is in an uncompressed file, and its header."""
    start = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).dictionary_page_offset
    header = parse_header(data[start : start + 64])
    assert header
    return start, header


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def header_bytes(
    *,
    kind: int = 2,
    sizes: tuple[int, int] = (300, 200),
    values: int = 7,
    encoding: int = 0,
    crc: int | None = None,
    is_sorted: bool | None = None,
) -> bytes:
    """Return the header of a page, as Thrift's compact protocol encodes it."""

    def field(value: int) -> bytes:
        return b"\x15" + varint(2 * value if value >= 0 else -2 * value - 1)

    checksum = b"\x4c" if crc is None else field(crc) + b"\x3c"
    flag = b"" if is_sorted is None else b"\x11" if is_sorted else b"\x12"
    return (field(kind) + field(sizes[0]) + field(sizes[1]) + checksum + field(values)
            + field(encoding) + flag + b"\x00\x00")  # fmt: skip


def plain(values: list[bytes]) -> bytes:
    return b"".join(len(v).to_bytes(4, "little") + v for v in values)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("checksum", [False, True])
def test_the_longest_value_of_a_column_is_found_in_every_codec(codec, checksum):
    rng = random.Random(3)
    texts = ["ä" * rng.randint(0, 90) for _ in range(2000)]
    for column in (pa.array([None, *texts]), pa.array([[], texts])):
        data = file_of(column, codec, write_page_checksum=checksum)
        assert longest_in(data) == max(len(t.encode()) for t in texts)


@pytest.mark.parametrize("codec", CODECS)
def test_a_dictionary_without_values_has_none(codec):
    assert longest_in(file_of(pa.array([None, None], pa.string()), codec)) in (0, None)
    assert longest_in(file_of(pa.array([""]), codec)) == 0


def test_a_small_page_is_not_decompressed():
    data = file_of(pa.array(["abc", "de"]), "none")
    size = len(plain([b"abc", b"de"]))
    assert longest_in(data, size) == size
    assert longest_in(data, size - 1) == 3


def test_a_page_that_is_too_large_is_left_to_arrow():
    large = pa.array(["x" * (17 << 20)])
    data = file_of(large, dictionary_pagesize_limit=64 << 20)
    assert longest_in(data) is None
    assert longest_in(data, 1 << 40) is None


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_column_without_a_dictionary_has_no_values_in_it(version):
    data = file_of(pa.array(["a" * 100]), use_dictionary=False, data_page_version=version)
    assert longest_in(data) == 0


def test_a_dictionary_that_the_metadata_does_not_name_is_found():
    data = file_of(pa.array(["abc", "de"] * 10))
    place = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0).column(0).data_page_offset
    # Without field 11, with field 9 at the dictionary; field 12 follows.
    named, unnamed = b"\x26" + varint(2 * place) + b"\x26\x08\x1c", b"\x26\x08\x3c"
    assert data.count(named) == 1
    data = data.replace(named, unnamed)
    length = int.from_bytes(data[-8:-4], "little") - len(named) + len(unnamed)
    data = data[:-8] + length.to_bytes(4, "little") + data[-4:]
    file = pq.ParquetFile(io.BytesIO(data))
    assert not file.metadata.row_group(0).column(0).has_dictionary_page
    assert file.read()["a"].to_pylist() == ["abc", "de"] * 10
    assert longest_in(data) == 3


def test_arrow_refuses_a_second_dictionary():
    data = file_of(pa.array(["a" * 60]), "none", write_page_index=False)
    start, header = dictionary_page(data)
    small = header_bytes(sizes=(7, 7), values=1) + plain([b"abc"])
    room = header.size + header.compressed - len(small)
    rest = room - len(header_bytes(sizes=(40, 40), values=1))
    second = header_bytes(sizes=(rest, rest), values=1) + plain([b"b" * (rest - 4)])
    assert len(second) == room
    changed = data[:start] + small + second + data[start + len(small + second) :]
    assert longest_in(changed) == 3
    with pytest.raises(OSError, match="more than one dictionary"):
        pq.ParquetFile(io.BytesIO(changed)).read()


@pytest.mark.parametrize("codec", CODECS)
def test_a_damaged_page_is_left_to_arrow_or_keeps_its_size(codec):
    data = file_of(pa.array([f"text {n}" for n in range(500)]), codec)
    start, header = dictionary_page(data)
    rng = random.Random(4)
    for _ in range(300):
        damaged = bytearray(data)
        at = start + rng.randrange(header.size + header.compressed)
        damaged[at] ^= 1 << rng.randrange(8)
        longest = longest_in(bytes(damaged))
        assert longest is None or 0 <= longest < max(header.uncompressed, 1 << 24)


@pytest.mark.parametrize("length", [4, 10_000, 2**31 - 1, 2**32 - 1])
def test_a_length_that_lies_is_left_to_arrow(length):
    data = bytearray(file_of(pa.array(["abc", "defgh"]), "none"))
    start, header = dictionary_page(bytes(data))
    first = start + header.size
    assert data[first : first + 4] == (3).to_bytes(4, "little")
    data[first : first + 4] = length.to_bytes(4, "little")
    assert longest_in(bytes(data)) is None


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_a_page_of_another_size_than_its_header_says_is_left_to_arrow(codec):
    data = file_of(pa.array(["a" * 40, "b" * 50]), codec)
    start, header = dictionary_page(data)
    sizes = (header.uncompressed, header.compressed)
    for more, longer in ((-1, 0), (1, 0), (0, -1), (0, 20)):
        changed = (sizes[0] + more, sizes[1] + longer)
        other = header_bytes(sizes=changed, values=header.values, is_sorted=False)
        assert len(other) == header.size
        assert longest_in(data[:start] + other + data[start + header.size :]) is None
    other = header_bytes(sizes=sizes, values=header.values + 1, is_sorted=False)
    assert longest_in(data[:start] + other + data[start + header.size :]) is None


@pytest.mark.parametrize("crc", [None, 0, -(2**31), 2**31 - 1])
@pytest.mark.parametrize("is_sorted", [None, False, True])
def test_a_header_is_parsed_and_no_part_of_it_is(crc, is_sorted):
    data = header_bytes(crc=crc, is_sorted=is_sorted)
    assert parse_header(data + b"page") == PageHeader(len(data), 300, 200, 7)
    assert all(parse_header(data[:end]) is None for end in range(len(data)))


@pytest.mark.parametrize("data", [
    header_bytes(kind=0), header_bytes(kind=3), header_bytes(encoding=8), header_bytes(values=-1),
    header_bytes(sizes=(-1, 5)), header_bytes(sizes=(5, -1)), header_bytes(sizes=(2**31, 5)),
    b"\x15\x04" * 2 + header_bytes()[2:],  # a field too many
    b"\x15" + b"\x84" + b"\x80" * 8 + b"\x00" + header_bytes()[2:],  # a number of ten bytes
    header_bytes()[:-1] + b"\x15\x02\x00", b"", b"\xff" * 64,
])  # fmt: skip
def test_another_header_is_not_parsed(data):
    assert parse_header(data) is None


def test_the_scan_agrees_with_the_values():
    rng = random.Random(5)
    for _ in range(100):
        values = [rng.randbytes(rng.choice([0, 1, 3, 300])) for _ in range(rng.randint(0, 20))]
        page = np.frombuffer(plain(values), np.uint8)
        longest = longest_byte_array(page, len(values))
        assert longest == max(map(len, values), default=0)
        assert isinstance(longest, int)
        assert longest_byte_array(page, len(values) + 1) == -1
        if values:
            assert longest_byte_array(page, len(values) - 1) == -1
            assert longest_byte_array(page[:-1], len(values)) == -1


def test_batches_without_large_rows_are_not_measured_row_by_row(monkeypatch):
    rows = pa.record_batch({"a": ["x" * 1000] * 40_000})
    assert rows.nbytes > batches.MAX_ROW_BYTES
    monkeypatch.setattr(batches, "_row_bytes", None)
    assert list(batches.cut_batch(rows)) == [(rows, False)]


def test_a_large_row_is_found_wherever_it_is():
    for place in (0, 500, 999):
        texts = ["x" * 1000] * 1000
        texts[place] = "y" * (batches.MAX_ROW_BYTES + 1)
        pieces = list(batches.cut_batch(pa.record_batch({"a": texts})))
        assert [p.rows.num_rows for p in pieces if p.large] == [1]
        assert sum(p.rows.num_rows for p in pieces) == 1000
