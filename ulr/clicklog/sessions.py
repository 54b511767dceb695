"""Assemble the sessions of impressions that need a closer look: those with a broken rule, and those
whose copies of a row are not adjacent.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ulr.warehouse.schema import FEATURES, FEEDBACK, RANKER, impression_schema

_OF_PAGE = ("query_id", "segment", "bucket", "swapped", RANKER)
_SHOWN = ("position", "doc_id", "clicked", FEEDBACK, FEATURES)

Row = dict[str, Any]


def assemble_rows(fragments: list[Row]) -> list[Row]:
    """Return one page per session, or per row without a session id, with `read_schema`.

    The page has the reason why its rows form no page in `problem`, and their text in `raw`.
    """
    sessions: dict[str, list[Row]] = defaultdict(list)
    pages = []
    for fragment in fragments:
        if fragment["session_id"]:
            sessions[fragment["session_id"]].append(fragment)
        else:
            pages.append(_orphan(fragment))
    return pages + [_page(rows) for rows in sessions.values()]


def _orphan(row: Row) -> Row:
    """Return a row without a session id as a bad page."""
    cells = row | {name: row[name][0] for name in _columns(row, _SHOWN)}
    known = {name: cells[name] for name in (*impression_schema.names, FEEDBACK) if name in cells}
    return row | {
        "doc_ids": row["doc_id"],
        "clicks": row["clicked"],
        "problem": row["problem"] or "null_session_id",
        "raw": row["raw"] or _to_json(known),
    }


def _page(fragments: list[Row]) -> Row:
    names = _columns(fragments[0], _SHOWN)
    copies = [
        tuple(map(_frozen, shown))
        for f in fragments
        for shown in zip(*(f[name] for name in names), strict=True)
    ]
    shown = sorted(set(copies), key=lambda s: [_sort_key(v) for v in s])
    problem = _problem(fragments, [position for position, *_ in shown])
    rows = [dict(zip(names, s, strict=True)) for s in shown]
    text = "[" + ",".join(_to_json(row | {FEATURES: None}) for row in rows) + "]"
    lists = {name: [s[at] for s in shown] for at, name in enumerate(names)}
    return {
        "session_id": fragments[0]["session_id"],
        **{
            name: _least(f[name] for f in fragments)
            for name in _columns(fragments[0], (*_OF_PAGE, "shown_at", "source"))
        },
        "doc_ids": lists["doc_id"],
        "clicks": lists["clicked"],
        FEEDBACK: lists.get(FEEDBACK),
        FEATURES: lists.get(FEATURES),
        "problem": problem,
        "raw": (_greatest(f["raw"] for f in fragments) or text) if problem else None,
        "repeats": len(copies) - len(shown) + sum(f["repeats"] for f in fragments),
    }


def _columns(row: Row, names: Iterable[str]) -> list[str]:
    """Return those of some columns that the row has."""
    return [name for name in names if name in row]


def _frozen(value: Any) -> Any:
    """Return a vector as a tuple with None for missing values, another value as it is."""
    if isinstance(value, list):
        return tuple(None if v is None or v != v else v for v in value)  # noqa: PLR0124 (NaN)
    return value


def _sort_key(value: Any) -> tuple[bool, Any]:
    return value is not None, str(value) if isinstance(value, tuple) else value


def _problem(fragments: list[Row], positions: list[int | None]) -> str | None:
    """Return the reason why a session's rows form no page, or None."""
    if recorded := _greatest(f["problem"] for f in fragments):
        return recorded
    if any(len({f.get(name) for f in fragments}) > 1 for name in _OF_PAGE):  # null is a value here
        return "conflicting_rows"
    if None in positions:
        return "null_position"
    if len(set(positions)) < len(positions):
        return "duplicate_position"
    return None if positions == list(range(1, len(positions) + 1)) else "position_gap"


def _least(values: Iterable[Any]) -> Any:
    return min((v for v in values if v is not None), default=None)


def _greatest(values: Iterable[str | None]) -> str | None:
    return max((v for v in values if v is not None), default=None)


def _to_json(row: Row) -> str:
    """Return a row as Spark's `to_json` does: without nulls, times to the millisecond."""
    present = {n: _text(v) for n, v in row.items() if v is not None}
    return json.dumps(present, ensure_ascii=False, separators=(",", ":"))


def _text(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    return value
