"""theta by position, with intervals and, in a simulation, the true values."""

from __future__ import annotations

from typing import Any

from ulr.propensity.choice import CHECK
from ulr.propensity.curve import IMPUTED
from ulr.propensity.levels import CHECK as LEVELS
from ulr.report.blocks import Figure, Table
from ulr.report.charts.lines import Line, LinesChart
from ulr.report.charts.propensities import COLOURS, curve_lines, true_theta
from ulr.report.facts import Facts, Row, require, segment_name, segments_of
from ulr.report.format import UNKNOWN, count, fixed, interval, known, plural

DRAWN = 6  # figures, the one of all traffic included
GIVEN = "given"


def context(facts: Facts) -> dict[str, Any]:
    """Return a curve of all traffic, and one per segment with all traffic for comparison."""
    rows = require(facts, "curve", "propensity curve")
    segments = segments_of(rows)
    changed = {name for settings in facts.variants.values() for name in settings}
    return {
        "model": facts.methods[0] if facts.methods else "",
        "has_variants": any(name.startswith("propensities.") for name in changed),
        "given": rows[0]["source"] == GIVEN,
        "estimator": rows[0]["estimator"],
        "days": plural(len(facts.window), "day"),
        "number": len(rows),
        "insufficient": sum(row["source"] == "insufficient" for row in rows),
        "imputed": sum(row["source"] == IMPUTED for row in rows),
        "depth": next(
            (
                f["message"]
                for f in facts.diagnostics
                if f["check"] == "depth" and f["segment"] is None
            ),
            "",
        ),
        "choice": next((f["message"] for f in facts.diagnostics if f["check"] == CHECK), ""),
        "figures": [(segment, _figure(facts, rows, segment)) for segment in segments[:DRAWN]],
        "segments_left": len(segments) - DRAWN,
        "levels": _levels(facts.levels, facts.diagnostics),
    }


def _levels(rows: list[Row], diagnostics: list[Row]) -> dict[str, Any] | None:
    """Return the curves of the levels of feedback, and what their comparison found."""
    if not rows:
        return None
    names = list(dict.fromkeys(row["event"] for row in rows))
    by_name = {name: [row for row in rows if row["event"] == name] for name in names}
    drawn = {name: own for name, own in by_name.items() if any(known(r["theta"]) for r in own)}
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
    headings = ["event", "events", "position", "theta", "95% interval", "standard error",
                "support", "note"]  # fmt: skip
    cells = [
        [r["event"], count(r["events"]), count(r["position"]), fixed(r["theta"]),
         interval(r["lower"], r["upper"]) if known(r["theta"]) else UNKNOWN,
         fixed(r["standard_error"]), count(r["support"]), r["note"]]
        for r in rows
    ]  # fmt: skip
    findings = [f for f in diagnostics if f["check"] == LEVELS]
    return {
        "figure": Figure(
            LinesChart(title, lines, "position", y_name, log=True), caption,
            Table("theta, by level of feedback", headings, cells),
        ),
        "counts": ", ".join(f"{name} {count(own[0]['events'])}" for name, own in by_name.items()),
        "differ": [f["message"] for f in findings if f["verdict"] != "ok"],
        "agree": [f["message"] for f in findings if f["verdict"] == "ok"],
        "lowest": names[0],
    }  # fmt: skip


def _kind(number: int) -> str:
    return f"segment-{(number - 1) % COLOURS + 1}"


def _figure(facts: Facts, rows: list[Row], segment: str | None) -> Figure:
    own = [r for r in rows if r["segment"] == segment]
    positions = [r["position"] for r in own]
    name = segment_name(segment)
    lines = curve_lines(own, "estimate" if segment is None else segment, "strong")
    if segment is not None:
        pooled = [r for r in rows if r["segment"] is None]
        lines.insert(0, Line("all traffic", [r["position"] for r in pooled],
                             [r["theta"] for r in pooled], "plain", marks=""))  # fmt: skip
    truth = {k: v for k, v in true_theta(facts.truth, segment).items() if k in positions}
    if truth:
        lines.append(Line("truth", list(truth), list(truth.values()), "truth", "crosses"))
    title = f"Examination by position, {name}, relative to position 1"
    y_name = "theta, relative to position 1 (log scale)"
    chart = LinesChart(title, lines, "position", y_name, log=True)
    return Figure(chart, _caption(own, truth, name), _table(own, truth, name))


def _caption(own: list[Row], truth: dict[int, float], name: str) -> str:
    given = own[0]["source"] == GIVEN
    text = f"theta of {name}, " + ("as given." if given else "with 95% intervals.")
    pooled = [str(r["position"]) for r in own if r["source"] == "pooled"]
    if pooled:
        text += (" Too few clicks in this segment, so the value follows from all traffic: "
                 f"position {', '.join(pooled)}.")  # fmt: skip
    if any(r["source"] == IMPUTED for r in own):
        text += " Rings are imputed positions."
    if truth:
        text += " Crosses are the simulator's true values"
        text += "." if given else f"; {_coverage(own, truth)}."
    return text


def _coverage(own: list[Row], truth: dict[int, float]) -> str:
    inside = [r["lower"] <= truth[r["position"]] <= r["upper"] for r in own
              if r["position"] in truth and r["position"] > 1
              and known(r["lower"]) and known(r["upper"])]  # fmt: skip
    return (
        f"{sum(inside)} of {len(inside)} are inside the intervals (position 1 is 1 by definition)"
    )


def _table(own: list[Row], truth: dict[int, float], name: str) -> Table:
    headings = ["position", "theta", "95% interval", "standard error", "clicks", "source",
                *(["truth"] if truth else []), "note"]  # fmt: skip
    rows = [
        [count(r["position"]), fixed(r["theta"]),
         interval(r["lower"], r["upper"]) if known(r["theta"]) else UNKNOWN,
         fixed(r["standard_error"]), count(r["support"]), r["source"],
         *([fixed(truth.get(r["position"]))] if truth else []), r["note"]]
        for r in own
    ]  # fmt: skip
    return Table(f"theta, {name}", headings, rows)
