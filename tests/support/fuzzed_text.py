"""Faults of JSON lines and CSV files."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.timezone.utc)
PAGES = 60

Row = dict[str, Any]
Writer = Callable[[Path, random.Random], None]


class LogFault(NamedTuple):
    """A broken log. write: writes its files into a folder. reasons: quarantined at least."""

    name: str
    form: str
    layout: str
    write: Writer
    reasons: tuple[str, ...] = ()


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


def _text(form: str, layout: str, change: Lines) -> Writer:
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
    ("query_id", '"\\ud800"', ("bad_encoding",)),
    ("query_id", '"\\udc00x"', ("bad_encoding",)),
    ("query_id", '{"a":"\\ud800"}', ("bad_encoding",)),
    ("query_id", "[" * 500 + "]" * 500, ()),
    ("query_id", "[" * 100_000 + "]" * 100_000, ()),
    ("query_id", '{"a":' * 300 + "1" + "}" * 300, ()),
    ("query_id", '"a\\u0000b"', ()),
    ("query_id", "9" * 6000, ()),
    ("query_id", "1e999", ()),
    ("query_id", '"' + "x" * 300_000 + '"', ()),
    ("query_id", '"\\u202e\\u0000\\uffff"', ()),
    ("session_id", "null", ("null_session_id",)),
    ("session_id", '""', ("null_session_id",)),
    ("shown_at", "0", ("date_out_of_range",)),
    ("shown_at", "-1", ("date_out_of_range",)),
    ("shown_at", "1767268800", ()),
    ("shown_at", "1767268800000", ()),
    ("shown_at", "1767268800000000.5", ()),
    ("shown_at", "1767268800000000000", ()),
    ("shown_at", "1e308", ("bad_type",)),
    ("shown_at", "9" * 400, ("bad_type",)),
    ("shown_at", '"0001-01-01T00:00:00+14:00"', ("date_out_of_range",)),
    ("shown_at", '"9999-12-31"', ("date_out_of_range",)),
    ("shown_at", '"2026-01-01T12:00:00 Nowhere/Place"', ("bad_type",)),
    ("shown_at", '"2026-01-01T12:00:00 ../../etc/passwd"', ("bad_type",)),
    ("shown_at", "true", ("bad_type",)),
    ("shown_at", '"NaT"', ("bad_type",)),
]
_CLICKS = [("2", "bad_type"), ("-1", "bad_type"), ("NaN", "bad_type"), ("0.5", "bad_type"),
           ('"yes"', "bad_type"), ("1e400", "bad_type"), ("Infinity", "bad_type")]  # fmt: skip

_LINES: list[tuple[str, Lines, tuple[str, ...]]] = [
    (
        "an invalid byte",
        _one_line(lambda line, _: line.replace(b"q", b"q\xff", 1)),
        ("bad_encoding",),
    ),
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
]
_CSV_LINES: list[tuple[str, Lines]] = [
    ("a second header", lambda lines, _: [*lines, lines[0]]),
    ("a header with a column twice", lambda lines, _: [lines[0] + b",query_id", *lines[1:]]),
    (
        "a header without a column",
        lambda lines, _: [lines[0].replace(b"query_id", b"query"), *lines[1:]],
    ),
    ("a header in upper case", lambda lines, _: [lines[0].upper(), *lines[1:]]),
    ("a header that is not UTF-8", lambda lines, _: [lines[0] + b",\xff\xfe", *lines[1:]]),
    ("too few cells", _one_line(lambda line, _: line.rpartition(b",")[0].rpartition(b",")[0])),
    ("too many cells", _one_line(lambda line, _: line + b',"x"' * 50)),
    ("a quote that is not closed", _one_line(lambda line, _: b'"' + line)),
    ("semicolons", lambda lines, _: [line.replace(b",", b";") for line in lines]),
    ("no header", lambda lines, _: lines[1:]),
]


def _compressed(change: Bytes) -> Writer:
    def write(folder: Path, rng: random.Random) -> None:
        content = gzip.compress(b"\n".join(_json_lines(pages(rng))) + b"\n", mtime=0)
        (folder / "log.json.gz").write_bytes(change(content, rng))

    return write


def _gzip_bomb(folder: Path, _: random.Random) -> None:
    with gzip.open(folder / "log.json.gz", "wb", compresslevel=9) as stream:
        for _ in range(300):
            stream.write(b"x" * (1 << 20))


def text_faults() -> Iterator[LogFault]:
    """Yield all faults of text files."""
    for layout in ("page", "impression"):
        for form in ("json", "csv"):
            for name, change, reasons in _LINES:
                yield LogFault(name, form, layout, _text(form, layout, change), reasons)
        for name, change in _CSV_LINES:
            yield LogFault(name, "csv", layout, _text("csv", layout, change))
    for column, text, reasons in _VALUES:
        yield _json_fault("page", column, text, reasons)
    for text, reason in _CLICKS:
        yield _json_fault("page", "clicks", f"[{text}, 0]", (reason,))
        yield _json_fault("impression", "clicked", text, (reason,))
    for text in ("0", "-1", "1.5", "null", '"x"', "2147483648", "1e9", "true"):
        yield _json_fault("impression", "position", text)
    yield LogFault("compressed and cut", "json", "page", _compressed(_cut))
    yield LogFault("compressed and damaged", "json", "page", _compressed(_flip))
    yield LogFault("a compressed line of 300 MB", "json", "page", _gzip_bomb, ("too_large",))


def _json_fault(layout: str, column: str, text: str, reasons: tuple[str, ...] = ()) -> LogFault:
    write = _text("json", layout, _one_line(_value(column, text)))
    return LogFault(f"{column} = {text[:30]}", "json", layout, write, reasons)


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]
