"""theta by level of feedback, for the section on examination."""

from __future__ import annotations

from typing import Any

from ulr.propensity.levels import CHECK as LEVELS
from ulr.report.blocks import Figure, Table
from ulr.report.charts.lines import LinesChart
from ulr.report.charts.propensities import COLOURS, curve_lines
from ulr.report.facts import Facts, Row
from ulr.report.format import UNKNOWN, count, fixed, interval, known


def level_curves(facts: Facts) -> dict[str, Any] | None:
    """Return the curves of the levels of feedback, and what their comparison found."""
    rows = facts.levels
    if not rows:
        return None
    names = list(dict.fromkeys(row["event"] for row in rows))
    by_name = {name: [row for row in rows if row["event"] == name] for name in names}
    drawn = {name: own for name, own in by_name.items() if any(map(_estimated, own))}
    lines = [
        line
        for number, (name, own) in enumerate(drawn.items())
        for line in curve_lines(own, name, "strong" if number == 0 else _kind(number))
    ]
    title = "Examination by position, by level of feedback, relative to position 1"
    y_name = "theta, relative to position 1 (log scale)"
    caption = "theta of documents with an event or a higher one, with 95% intervals."
    without = [name for name in names if name not in drawn]
    if without:
        caption += f" Without a curve: {', '.join(without)}."
    findings = [f for f in facts.diagnostics if f["check"] == LEVELS]
    return {
        "figure": Figure(
            LinesChart(title, lines, "position", y_name, log=True), caption,
            _table(rows),
        ),
        "counts": ", ".join(f"{name} {count(own[0]['events'])}" for name, own in by_name.items()),
        "differ": [f["message"] for f in findings if f["verdict"] != "ok"],
        "agree": [f["message"] for f in findings if f["verdict"] == "ok"],
        "lowest": names[0],
    }  # fmt: skip


def _kind(number: int) -> str:
    return f"segment-{(number - 1) % COLOURS + 1}"


def _estimated(row: Row) -> bool:
    """Return whether a row is an estimate; position 1 is 1 by definition."""
    return bool(row["position"] > 1 and known(row["theta"]))


def _table(rows: list[Row]) -> Table:
    headings = ["event", "events", "position", "theta", "95% interval", "standard error",
                "support", "note"]  # fmt: skip
    cells = [
        [r["event"], count(r["events"]), count(r["position"]), fixed(r["theta"]),
         interval(r["lower"], r["upper"]) if known(r["theta"]) else UNKNOWN,
         fixed(r["standard_error"]), count(r["support"]), r["note"]]
        for r in rows
    ]  # fmt: skip
    return Table("theta, by level of feedback", headings, cells)
