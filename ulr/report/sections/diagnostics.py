"""The checks of the propensities, each with what to do."""

from __future__ import annotations

from typing import Any

from ulr.propensity.curve_checks import FIRST_POSITION
from ulr.report.advice import CHECKS, OTHER
from ulr.report.blocks import Table
from ulr.report.facts import Facts, Row, require, segment_name
from ulr.report.format import known, p_equals, p_value

VERDICTS = {  # the worst first
    "refused": "✕ refused",
    "warning": "! warning",
    "note": "i note",
    "ok": "✓ ok",
}
OVERALL = ("all", FIRST_POSITION)  # subjects whose messages stand under the check's question
SHOWN = 3  # alarms of a check with their messages
LISTED = 300  # findings in the table


def context(facts: Facts) -> dict[str, Any]:
    """Return the checks, those with alarms first."""
    rows = [r for r in require(facts, "diagnostics", "diagnostics") if r["check"] != "browsing"]
    rows.sort(key=_severity)
    checks: dict[str, list[Row]] = {}
    for row in rows:
        checks.setdefault(row["check"], []).append(row)
    listed = [[segment_name(r["segment"]), r["check"].replace("_", " "), r["subject"],
               r["verdict"], p_value(r["p_value"]), r["message"]]
              for r in rows[:LISTED]]  # fmt: skip
    return {
        "number": len(rows),
        "alarms": sum(r["verdict"] not in ("ok", "note") for r in rows),
        "checks": [_check(name, findings) for name, findings in checks.items()],
        "table": Table("All findings",
                       ["traffic", "check", "subject", "verdict", "p", "message"], listed),
        "left": len(rows) - LISTED,
    }  # fmt: skip


def _severity(row: Row) -> int:
    return list(VERDICTS).index(row["verdict"])


def _check(name: str, rows: list[Row]) -> dict[str, Any]:
    alarms = [_message(row) for row in rows if row["verdict"] != "ok"]
    overall = [r["message"] for r in rows if r["subject"] in OVERALL and r["segment"] is None]
    worst = rows[0]["verdict"]
    return {
        "advice": CHECKS.get(name, OTHER._replace(question=name)),
        "verdict": worst,
        "state": VERDICTS[worst],
        "alarms": alarms[:SHOWN],
        "left": len(alarms) - SHOWN,
        "detail": " ".join(f"{text[0].upper()}{text[1:]}." for text in overall),
    }


def _message(row: Row) -> str:
    segment = "" if row["segment"] is None else f"Segment {row['segment']}, "
    p = f" ({p_equals(row['p_value'])})" if known(row["p_value"]) else ""
    return f"{segment}{row['message']}{p}"
