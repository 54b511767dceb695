"""Click logs with one fault each, by number: the same number writes the same files.

    fault = write_fault(n, folder)   # 0 <= n < FAULTS

Whatever the fault, a run ends with exit code 0, 2 or 3 and one line, without a crash or a hang. If
it publishes, every row is counted: rows read = pages + quarantined + duplicates (`unaccounted`).
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.warehouse.schema import impression_schema, page_schema

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
PAGES = 60
EXIT_CODES = (0, 2, 3)
_MICROSECONDS = int(NOON.timestamp()) * 10**6

Row = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """A log with a fault. settings: changes of `ulr` settings, without log.path."""

    name: str
    settings: list[str]
    exit_codes: tuple[int, ...] = EXIT_CODES
    reasons: frozenset[str] = field(default_factory=frozenset)  # at least these are quarantined


def write_fault(number: int, folder: Path) -> Fault:
    """Write the log of a fault into a new folder."""
    name, form, layout, write, reasons = _FAULTS[number]
    folder.mkdir(parents=True)
    write(folder, random.Random(number))
    settings = [f"log.format={form}", f"log.layout={layout}", "log.max_bad_fraction=1"]
    return Fault(f"{form} {layout}: {name}", settings, reasons=frozenset(reasons))


def unaccounted(counts: Mapping[str, int]) -> int:
    """Return how many rows of a log are neither pages, nor quarantined, nor dropped and counted.

    For impressions, `read` counts the assembled pages.
    """
    bad = sum(n for name, n in counts.items() if name.startswith("bad:"))
    return counts["read"] - counts["pages"] - counts["duplicates"] - bad


def pages(rng: random.Random, number: int = PAGES) -> list[Row]:
    """Return good pages as JSON values; times are ISO texts."""
    rows = []
    for n in range(number):
        docs = rng.sample([f"d{i}" for i in range(9)], rng.randint(2, 6))
        rows.append(
            {
                "session_id": f"s{n}",
                "query_id": f"q{rng.randint(0, 5)}",
                "shown_at": NOON.isoformat(),
                "doc_ids": docs,
                "clicks": [rng.random() < 0.3 for _ in docs],
                "segment": rng.choice([None, "mobile"]),
            }
        )
    return rows


def impressions(rng: random.Random) -> list[Row]:
    """Return the rows of good pages, one per shown document."""
    return [
        {n: row[n] for n in ("session_id", "query_id", "shown_at", "segment")}
        | {"doc_id": doc, "position": k, "clicked": click}
        for row in pages(rng)
        for k, (doc, click) in enumerate(zip(row["doc_ids"], row["clicks"], strict=True), 1)
    ]


# Text: a function of the lines of a good file, or of its bytes.

Lines = Callable[[list[bytes], random.Random], list[bytes]]
Bytes = Callable[[bytes, random.Random], bytes]


def _json_lines(rows: list[Row]) -> list[bytes]:
    return [json.dumps(row).encode() for row in rows]


def _csv_lines(rows: list[Row]) -> list[bytes]:
    lines = [",".join(rows[0])]
    for row in rows:
        cells = [json.dumps(v) if isinstance(v, list) else "" if v is None else str(v)
                 for v in row.values()]  # fmt: skip
        lines.append(",".join('"' + c.replace('"', '""') + '"' for c in cells))
    return [line.encode() for line in lines]


def _text(form: str, layout: str, change: Lines) -> Callable[[Path, random.Random], None]:
    def write(folder: Path, rng: random.Random) -> None:
        rows = pages(rng) if layout == "page" else impressions(rng)
        lines = (_json_lines if form == "json" else _csv_lines)(rows)
        (folder / f"log.{form}").write_bytes(b"\n".join(change(lines, rng)) + b"\n")

    return write


def _one_line(change: Bytes) -> Lines:
    """Change one line after the header."""

    def changed(lines: list[bytes], rng: random.Random) -> list[bytes]:
        at = rng.randrange(1, len(lines))
        return [*lines[:at], change(lines[at], rng), *lines[at + 1 :]]

    return changed


def _value(name: str, text: str) -> Bytes:
    """Replace a value of a JSON line by a text."""

    def changed(line: bytes, _: random.Random) -> bytes:
        row = json.loads(line)
        row[name] = "@@"
        return json.dumps(row).replace('"@@"', text).encode()

    return changed


def _insert(content: bytes) -> Bytes:
    def changed(line: bytes, rng: random.Random) -> bytes:
        at = rng.randrange(2, len(line) - 2)
        return line[:at] + content + line[at:]

    return changed


def _flip(line: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(line))
    return line[:at] + bytes([line[at] ^ 1 << rng.randrange(8)]) + line[at + 1 :]


_VALUES = [
    ("query_id", '"\\ud800"', ("bad_encoding",)), ("query_id", '"\\udc00x"', ("bad_encoding",)),
    ("query_id", '{"a":"\\ud800"}', ("bad_encoding",)), ("query_id", "[" * 500 + "]" * 500, ()),
    ("query_id", "[" * 100_000 + "]" * 100_000, ()), ("query_id", '{"a":' * 300 + "1" + "}" * 300, ()),
    ("query_id", '"a\\u0000b"', ()), ("query_id", "9" * 6000, ()), ("query_id", "1e999", ()),
    ("query_id", '"' + "x" * 300_000 + '"', ()), ("query_id", '"\\u202e\\u0000\\uffff"', ()),
    ("session_id", "null", ("null_session_id",)), ("session_id", '""', ("null_session_id",)),
    ("shown_at", "0", ("date_out_of_range",)), ("shown_at", "-1", ("date_out_of_range",)),
    ("shown_at", "1767268800", ()), ("shown_at", "1767268800000", ()),
    ("shown_at", "1767268800000000.5", ()), ("shown_at", "1767268800000000000", ()),
    ("shown_at", "1e308", ("bad_type",)), ("shown_at", "9" * 400, ("bad_type",)),
    ("shown_at", '"0001-01-01T00:00:00+14:00"', ("date_out_of_range",)), ("shown_at", '"9999-12-31"',
     ("date_out_of_range",)), ("shown_at", '"2026-01-01T12:00:00 Nowhere/Place"', ("bad_type",)),
    ("shown_at", '"2026-01-01T12:00:00 ../../etc/passwd"', ("bad_type",)),
    ("shown_at", "true", ("bad_type",)), ("shown_at", '"NaT"', ("bad_type",)),
]  # fmt: skip
_CLICKS = [("2", "bad_type"), ("-1", "bad_type"), ("NaN", "bad_type"), ("0.5", "bad_type"),
           ('"yes"', "bad_type"), ("1e400", "bad_type"), ("Infinity", "bad_type")]  # fmt: skip

_LINES: list[tuple[str, Lines, tuple[str, ...]]] = [
    ("an invalid byte", _one_line(lambda line, _: line.replace(b'q', b'q\xff', 1)), ("bad_encoding",)),
    ("half a character", _one_line(_insert(b"\xf0\x9f")), ()),
    ("an overlong encoding", _one_line(_insert(b"\xc0\x80")), ()),
    ("a NUL byte", _one_line(_insert(b"\0")), ()),
    ("a carriage return", _one_line(_insert(b"\r")), ()),
    ("a line feed within a line", _one_line(_insert(b"\n")), ()),
    ("a line separator", _one_line(_insert("\u2028\x85\x0b\x0c".encode())), ()),
    ("a quote", _one_line(_insert(b'"')), ()),
    ("a flipped bit", _one_line(_flip), ()),
    ("flipped bits", lambda lines, rng: [_flip(line, rng) for line in lines], ()),
    ("half a line", _one_line(lambda line, _: line[: len(line) // 2]), ()),
    ("the last line cut", lambda lines, _: [*lines[:-1], lines[-1][:-7]], ()),
    ("an empty line", _one_line(lambda _, __: b""), ()),
    ("blanks", _one_line(lambda _, __: b" \t  "), ()),
    ("a line twice", lambda lines, _: [*lines, lines[-1], lines[-1]], ()),
    ("a byte order mark", lambda lines, _: [b"\xef\xbb\xbf" + lines[0], *lines[1:]], ()),
    ("UTF-16", lambda lines, _: [b"\n".join(lines).decode().encode("utf-16")], ()),
    ("random bytes", lambda lines, rng: [rng.randbytes(200) for _ in lines], ()),
    ("a line of 20 MB", _one_line(lambda line, _: line + b" " * (20 << 20)), ("too_large",)),
    ("one line without an end", lambda lines, _: [b"x".join(lines * 2000)], ()),
    ("no lines", lambda _, __: [], ()),
    ("only the first line", lambda lines, _: lines[:1], ()),
    ("Windows line ends", lambda lines, _: [line + b"\r" for line in lines], ()),
    ("columns shuffled", lambda lines, rng: [lines[0], *rng.sample(lines[1:], len(lines) - 1)], ()),
]  # fmt: skip
_CSV_LINES: list[tuple[str, Lines]] = [
    ("a second header", lambda lines, _: [*lines, lines[0]]),
    ("a header with a column twice", lambda lines, _: [lines[0] + b",query_id", *lines[1:]]),
    ("a header without a column", lambda lines, _: [lines[0].replace(b"query_id", b"query"), *lines[1:]]),
    ("a header in upper case", lambda lines, _: [lines[0].upper(), *lines[1:]]),
    ("a header that is not UTF-8", lambda lines, _: [lines[0] + b",\xff\xfe", *lines[1:]]),
    ("too few cells", _one_line(lambda line, _: line.rpartition(b",")[0].rpartition(b",")[0])),
    ("too many cells", _one_line(lambda line, _: line + b',"x"' * 50)),
    ("a quote that is not closed", _one_line(lambda line, _: b'"' + line)),
    ("semicolons", lambda lines, _: [line.replace(b",", b";") for line in lines]),
    ("no header", lambda lines, _: lines[1:]),
]  # fmt: skip


# Parquet: a function of the columns of a good table, or of the bytes of its file.

Columns = Callable[[dict[str, pa.Array], random.Random], dict[str, Any]]


def _good_table(layout: str, rng: random.Random) -> pa.Table:
    schema = page_schema if layout == "page" else impression_schema
    rows = pages(rng) if layout == "page" else impressions(rng)
    typed = [row | {"shown_at": NOON} for row in rows]
    return pa.Table.from_pylist(typed, schema=schema)


def _parquet(layout: str, change: Columns, **options: Any) -> Callable[[Path, random.Random], None]:
    def write(folder: Path, rng: random.Random) -> None:
        table = _good_table(layout, rng).combine_chunks()
        columns = {n: table[n].chunk(0) for n in table.column_names}
        pq.write_table(pa.table(change(columns, rng)), folder / "log.parquet", **options)

    return write


def _bytes(change: Bytes, compression: str) -> Callable[[Path, random.Random], None]:
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
    ("bytes that are not UTF-8", _column("query_id", lambda n: pa.array([b"\xff"] * n)), ("bad_encoding",)),
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
    ("a map as query", _column("query_id", lambda n: pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int64()))), ("bad_type",)),
    ("a query of nulls", _column("query_id", lambda n: pa.nulls(n)), ("null_query_id",)),
    ("a query in categories", _column("query_id", lambda n: pa.array(["q"] * n).dictionary_encode()), ()),
    ("a query of 40 MB", _column("query_id", lambda n: pa.array(["x" * (40 << 20)] + ["q"] * (n - 1))), ("too_large",)),
    ("large strings", _column("session_id", lambda n: pa.array([f"s{i}" for i in range(n)], pa.large_string())), ()),
    ("string views", _column("session_id", lambda n: pa.array([f"s{i}" for i in range(n)], pa.string_view())), ()),
    ("a missing column", lambda columns, _: {n: c for n, c in columns.items() if n != "query_id"}, ()),
    ("no row", lambda columns, _: {n: c.slice(0, 0) for n, c in columns.items()}, ()),
]  # fmt: skip
_PAGES_ONLY: list[tuple[str, Columns, tuple[str, ...]]] = [
    ("documents that are not UTF-8", _column("doc_ids", _invalid_list), ("bad_encoding",)),
    ("documents as one text", _column("doc_ids", lambda n: pa.array(["a"] * n)), ("bad_type",)),
    ("numbers as documents", _column("doc_ids", lambda n: pa.array([[1, 2]] * n)), ()),
    ("lists of lists", _column("doc_ids", lambda n: pa.array([[["a"]]] * n)), ("bad_type",)),
    ("150,000 documents", _column("doc_ids", lambda n: pa.array([["d"] * 150_000] + [["a", "b"]] * (n - 1))), ("too_large",)),
    ("a list view", _column("doc_ids", lambda n: pa.array([["a", "b"]] * n, pa.large_list(pa.string()))), ()),
    ("empty lists", _column("doc_ids", lambda n: pa.array([[]] * n, pa.list_(pa.string()))), ()),
]  # fmt: skip


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
    ("an empty file", lambda _, __: b""), ("no Parquet", lambda _, __: b"session_id,query_id\n" * 9),
    ("only magic bytes", lambda _, __: b"PAR1PAR1"), ("a cut file", _cut), ("zeros", _zeros),
    ("a footer of 2 GB", _long_footer), ("a flipped bit", _flipped(1)), ("flipped bits", _flipped(8)),
    ("many flipped bits", _flipped(100)), ("bytes at the end", lambda content, _: content + b"x"),
    ("another file after it", lambda content, _: content * 2),
]  # fmt: skip


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


def _compressed(change: Bytes) -> Callable[[Path, random.Random], None]:
    def write(folder: Path, rng: random.Random) -> None:
        content = gzip.compress(b"\n".join(_json_lines(pages(rng))) + b"\n", mtime=0)
        (folder / "log.json.gz").write_bytes(change(content, rng))

    return write


def _gzip_bomb(folder: Path, _: random.Random) -> None:
    with gzip.open(folder / "log.json.gz", "wb", compresslevel=9) as stream:
        for _ in range(300):
            stream.write(b"x" * (1 << 20))


def _impression_value(name: str, text: str) -> Lines:
    return _one_line(_value(name, text))


def _all() -> list[tuple[str, str, str, Callable[[Path, random.Random], None], tuple[str, ...]]]:
    faults: list[Any] = []
    for form, layout in (
        ("json", "page"),
        ("csv", "page"),
        ("json", "impression"),
        ("csv", "impression"),
    ):
        for name, change, reasons in _LINES:
            faults.append((name, form, layout, _text(form, layout, change), reasons))
    for layout in ("page", "impression"):
        for name, change in _CSV_LINES:
            faults.append((name, "csv", layout, _text("csv", layout, change), ()))
    for name, text, reasons in _VALUES:
        label = f"{name} = {text[:30]}"
        faults.append(
            (label, "json", "page", _text("json", "page", _one_line(_value(name, text))), reasons)
        )
    for text, reason in _CLICKS:
        change = _one_line(_value("clicks", f"[{text}, 0]"))
        faults.append(
            (f"clicks = [{text}, 0]", "json", "page", _text("json", "page", change), (reason,))
        )
        change = _impression_value("clicked", text)
        faults.append(
            (
                f"clicked = {text}",
                "json",
                "impression",
                _text("json", "impression", change),
                (reason,),
            )
        )
    for text in ("0", "-1", "1.5", "null", '"x"', "2147483648", "1e9", "true"):
        change = _impression_value("position", text)
        faults.append(
            (f"position = {text}", "json", "impression", _text("json", "impression", change), ())
        )
    for layout in ("page", "impression"):
        for name, columns, reasons in _PARQUET:
            faults.append((name, "parquet", layout, _parquet(layout, columns), reasons))
    for name, columns, reasons in _PAGES_ONLY:
        faults.append((name, "parquet", "page", _parquet("page", columns), reasons))
    for compression in ("none", "snappy", "zstd"):
        for name, change in _DAMAGE:
            faults.append(
                (f"{name} ({compression})", "parquet", "page", _bytes(change, compression), ())
            )
    faults += [
        ("files of different columns", "parquet", "page", _mixed, ()),
        ("one damaged file", "parquet", "page", _one_bad_file, ()),
        ("compressed and cut", "json", "page", _compressed(_cut), ()),
        ("compressed and damaged", "json", "page", _compressed(_flipped(3)), ()),
        ("a compressed line of 300 MB", "json", "page", _gzip_bomb, ("too_large",)),
    ]  # fmt: skip
    return faults


_FAULTS = _all()
FAULTS = len(_FAULTS)
