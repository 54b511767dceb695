"""Faults of Parquet files: odd columns and types, and damaged bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.fuzzed_text import NOON, Bytes, LogFault, Writer, impressions, pages
from ulr.warehouse.schema import impression_schema, page_schema

_MICROSECONDS = int(NOON.timestamp()) * 10**6

Columns = Callable[[dict[str, pa.Array], random.Random], dict[str, Any]]


def _good_table(layout: str, rng: random.Random) -> pa.Table:
    schema = page_schema if layout == "page" else impression_schema
    rows = pages(rng) if layout == "page" else impressions(rng)
    typed = [row | {"shown_at": NOON} for row in rows]
    return pa.Table.from_pylist(typed, schema=schema)


def _parquet(layout: str, change: Columns, **options: Any) -> Writer:
    def write(folder: Path, rng: random.Random) -> None:
        table = _good_table(layout, rng).combine_chunks()
        columns = {n: table[n].chunk(0) for n in table.column_names}
        pq.write_table(pa.table(change(columns, rng)), folder / "log.parquet", **options)

    return write


def _bytes(change: Bytes, compression: str) -> Writer:
    def write(folder: Path, rng: random.Random) -> None:
        path = folder / "log.parquet"
        pq.write_table(_good_table("page", rng), path, compression=compression, row_group_size=20)
        path.write_bytes(change(path.read_bytes(), rng))

    return write


def _column(name: str, values: Callable[[int], Any]) -> Columns:
    return lambda columns, _: columns | {name: values(len(columns["session_id"]))}


def _invalid_text(length: int) -> pa.Array:
    content = pa.array([b"q\xff" if n == 3 else b"q" for n in range(length)], pa.binary())
    return pa.Array.from_buffers(pa.string(), length, content.buffers())


def _invalid_list(length: int) -> pa.Array:
    texts = _invalid_text(2 * length)
    return pa.ListArray.from_arrays(pa.array(range(0, 2 * length + 1, 2), pa.int32()), texts)


def _numbers(kind: pa.DataType, odd: Any) -> Columns:
    """Return clicks as numbers, one of which is neither 0 nor 1."""

    def changed(columns: dict[str, pa.Array], _: random.Random) -> dict[str, Any]:
        name = "clicks" if "clicks" in columns else "clicked"
        rows = columns[name].to_pylist()
        if name == "clicked":
            values = [odd if n == 3 else int(v) for n, v in enumerate(rows)]
            return columns | {name: pa.array(values, kind)}
        lists = [[odd if (n, k) == (3, 0) else int(v) for k, v in enumerate(row)]
                 for n, row in enumerate(rows)]  # fmt: skip
        return columns | {name: pa.array(lists, pa.list_(kind))}

    return changed


def _times(kind: pa.DataType, value: Any) -> Columns:
    return _column("shown_at", lambda n: pa.array([value] * n, kind))


_PARQUET: list[tuple[str, Columns, tuple[str, ...]]] = [
    ("a query that is not UTF-8", _column("query_id", _invalid_text), ("bad_encoding",)),
    ("a segment that is not UTF-8", _column("segment", _invalid_text), ("bad_encoding",)),
    (
        "bytes that are not UTF-8",
        _column("query_id", lambda n: pa.array([b"\xff"] * n)),
        ("bad_encoding",),
    ),
    ("a click of 2", _numbers(pa.int64(), 2), ("bad_type",)),
    ("a click of -1", _numbers(pa.int8(), -1), ("bad_type",)),
    ("a click of 255", _numbers(pa.uint8(), 255), ("bad_type",)),
    ("a click of NaN", _numbers(pa.float64(), float("nan")), ("bad_type",)),
    ("a click of 0.5", _numbers(pa.float32(), 0.5), ("bad_type",)),
    ("a click of null", _numbers(pa.int32(), None), ("null_click",)),
    ("clicks as numbers", _numbers(pa.float64(), 1.0), ()),
    ("epoch seconds", _times(pa.int64(), _MICROSECONDS // 10**6), ()),
    ("epoch seconds as float", _times(pa.float64(), _MICROSECONDS / 10**6), ()),
    ("epoch milliseconds", _times(pa.int64(), _MICROSECONDS // 10**3), ()),
    ("epoch microseconds", _times(pa.uint64(), _MICROSECONDS), ()),
    ("epoch nanoseconds", _times(pa.int64(), _MICROSECONDS * 10**3), ()),
    ("epoch 0", _times(pa.int32(), 0), ("date_out_of_range",)),
    ("epoch NaN", _times(pa.float64(), float("nan")), ("bad_type",)),
    ("the least epoch", _times(pa.int64(), -(2**63)), ("date_out_of_range",)),
    ("times past Python's years", _times(pa.timestamp("us"), 2**62), ("date_out_of_range",)),
    ("times past Arrow's range", _times(pa.timestamp("s"), 2**50), ("bad_type",)),
    ("times of 1970", _times(pa.timestamp("ms"), 1000), ("date_out_of_range",)),
    ("dates", _column("shown_at", lambda n: pa.array([NOON.date()] * n)), ()),
    ("times as text", _times(pa.string(), "2026-01-01 12:00:00"), ()),
    ("a struct as query", _column("query_id", lambda n: pa.array([{"a": "b"}] * n)), ("bad_type",)),
    (
        "a map as query",
        _column("query_id", lambda n: pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int64()))),
        ("bad_type",),
    ),
    ("a query of nulls", _column("query_id", pa.nulls), ("null_query_id",)),
    (
        "a query in categories",
        _column("query_id", lambda n: pa.array(["q"] * n).dictionary_encode()),
        (),
    ),
    (
        "a query of 40 MB",
        _column("query_id", lambda n: pa.array(["x" * (40 << 20)] + ["q"] * (n - 1))),
        ("too_large",),
    ),
    (
        "large strings",
        _column("session_id", lambda n: pa.array([f"s{i}" for i in range(n)], pa.large_string())),
        (),
    ),
    (
        "string views",
        _column("session_id", lambda n: pa.array([f"s{i}" for i in range(n)], pa.string_view())),
        (),
    ),
    (
        "a missing column",
        lambda columns, _: {n: c for n, c in columns.items() if n != "query_id"},
        (),
    ),
    ("no row", lambda columns, _: {n: c.slice(0, 0) for n, c in columns.items()}, ()),
]
_PAGES_ONLY: list[tuple[str, Columns, tuple[str, ...]]] = [
    ("documents that are not UTF-8", _column("doc_ids", _invalid_list), ("bad_encoding",)),
    ("documents as one text", _column("doc_ids", lambda n: pa.array(["a"] * n)), ("bad_type",)),
    ("numbers as documents", _column("doc_ids", lambda n: pa.array([[1, 2]] * n)), ()),
    ("lists of lists", _column("doc_ids", lambda n: pa.array([[["a"]]] * n)), ("bad_type",)),
    (
        "150,000 documents",
        _column("doc_ids", lambda n: pa.array([["d"] * 150_000] + [["a", "b"]] * (n - 1))),
        ("too_large",),
    ),
    (
        "a list view",
        _column("doc_ids", lambda n: pa.array([["a", "b"]] * n, pa.large_list(pa.string()))),
        (),
    ),
    ("empty lists", _column("doc_ids", lambda n: pa.array([[]] * n, pa.list_(pa.string()))), ()),
]


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def _flipped(count: int) -> Bytes:
    def changed(content: bytes, rng: random.Random) -> bytes:
        damaged = bytearray(content)
        for _ in range(count):
            damaged[rng.randrange(4, len(damaged) - 8)] ^= 1 << rng.randrange(8)
        return bytes(damaged)

    return changed


def _zeros(content: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(4, len(content) // 2)
    return content[:at] + bytes(200) + content[at + 200 :]


def _long_footer(content: bytes, _: random.Random) -> bytes:
    return content[:-8] + struct.pack("<I", 2**31 - 1) + content[-4:]


_DAMAGE: list[tuple[str, Bytes]] = [
    ("an empty file", lambda _, __: b""),
    ("no Parquet", lambda _, __: b"session_id,query_id\n" * 9),
    ("only magic bytes", lambda _, __: b"PAR1PAR1"),
    ("a cut file", _cut),
    ("zeros", _zeros),
    ("a footer of 2 GB", _long_footer),
    ("a flipped bit", _flipped(1)),
    ("flipped bits", _flipped(8)),
    ("many flipped bits", _flipped(100)),
    ("bytes at the end", lambda content, _: content + b"x"),
    ("another file after it", lambda content, _: content * 2),
]


def _mixed(folder: Path, rng: random.Random) -> None:
    """Write files with different columns and types."""
    table = _good_table("page", rng)
    pq.write_table(table, folder / "a.parquet")
    pq.write_table(table.drop_columns(["clicks"]), folder / "b.parquet")
    numbers = table.set_column(1, "query_id", pa.array(range(table.num_rows)))
    pq.write_table(numbers, folder / "c.parquet")


def _one_bad_file(folder: Path, rng: random.Random) -> None:
    pq.write_table(_good_table("page", rng), folder / "a.parquet")
    (folder / "b.parquet").write_bytes(b"PAR1")


def parquet_faults() -> Iterator[LogFault]:
    """Yield all faults of Parquet files."""
    for layout in ("page", "impression"):
        for name, columns, reasons in _PARQUET:
            yield LogFault(name, "parquet", layout, _parquet(layout, columns), reasons)
    for name, columns, reasons in _PAGES_ONLY:
        yield LogFault(name, "parquet", "page", _parquet("page", columns), reasons)
    for compression in ("none", "snappy", "zstd"):
        for name, change in _DAMAGE:
            write = _bytes(change, compression)
            yield LogFault(f"{name} ({compression})", "parquet", "page", write)
    yield LogFault("files of different columns", "parquet", "page", _mixed)
    yield LogFault("one damaged file", "parquet", "page", _one_bad_file)
