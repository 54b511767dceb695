"""What a log has, in one line: the columns of the contract, and how many first rows are valid.

For `ulr doctor`; the stage `groups` reads every row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ulr.clicklog.contract import check_pages
from ulr.clicklog.events import Levels
from ulr.clicklog.pages import schema_of
from ulr.clicklog.sources import LogSource
from ulr.config.inputs import Log
from ulr.engine.names import nearest

_SHOWN = 40  # characters of an expression
_REQUIRED = ("session_id", "query_id", "shown_at", "doc_id", "position")  # of impressions


@dataclass(frozen=True)
class LogSample:
    """The first rows of a log. reasons: the rows that break the contract, by rule."""

    text: str
    rows: int
    clicks: int
    reasons: Counter[str]

    @property
    def bad_fraction(self) -> float:
        """The fraction of the rows that break the contract."""
        return self.reasons.total() / max(self.rows, 1)


def describe_log(source: LogSource, log: Log) -> LogSample:
    """Read the first rows, and describe them and the columns."""
    columns = describe_columns(schema_of(log).names, log.columns, source.names())
    rows = source.first_rows()
    if rows is None:
        return LogSample(f"no row; {columns}", 0, 0, Counter())
    if log.layout == "page":
        checked = check_pages(rows, Levels.of(log.feedback), log.feature_count)
        reasons, clicks = checked.reason, pc.list_flatten(rows["clicks"])
    else:
        reasons, clicks = _reasons_of_impressions(rows), rows["clicked"]
    counts = {r["values"]: r["counts"] for r in reasons.drop_null().value_counts().to_pylist()}
    found, clicked = Counter(counts), pc.sum(clicks).as_py() or 0
    kind = "pages" if log.layout == "page" else "impressions"
    text = f"{rows.num_rows - found.total():,} of the first {rows.num_rows:,} {kind} are valid, "
    text += f"{clicked:,} clicks"
    if found:
        text += f" ({', '.join(f'{name} {count:,}' for name, count in found.most_common(3))})"
    return LogSample(f"{text}; {columns}", rows.num_rows, clicked, found)


def describe_columns(
    wanted: Sequence[str], mapped: Mapping[str, str], present: Sequence[str]
) -> str:
    """Return which columns are there, which are mapped, and which are not there.

    mapped: `log.columns`. present: the columns that the log has.
    """
    own = {name.lower() for name in present}
    texts, absent = [], []
    for name in wanted:
        if name in mapped:
            text = " ".join(mapped[name].split())
            texts.append(f"{name} = {text[:_SHOWN]}{'...' if len(text) > _SHOWN else ''}")
        elif name in own:
            texts.append(name)
        else:
            others = [n for n in present if n.lower() not in wanted]
            absent.append(f"{name}{nearest(name, others)}")
    missing = f"; without {', '.join(absent)}" if absent else ""
    return f"columns {', '.join(texts)}{missing}"


def _reasons_of_impressions(rows: pa.RecordBatch) -> pa.Array:
    """Return why a row by itself breaks the contract, or null."""
    reason = rows["problem"]
    for name in _REQUIRED:
        null = pa.array(["null_doc_id" if name == "doc_id" else f"null_{name}"])
        empty = pc.if_else(rows[name].is_null(), null[0], None)
        reason = pc.coalesce(reason, empty)
    return reason
