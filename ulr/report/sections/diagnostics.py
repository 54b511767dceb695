"""Whether the propensities can be believed, check by check, each with what to do."""

from __future__ import annotations

from ulr.report.advice import CHECKS, UNKNOWN
from ulr.report.facts import Facts, Row, part, segment_name
from ulr.report.format import DASH, known, p_value, p_words
from ulr.report.html import Cell, Html, Number, folded, join, left_out, node, paragraph, table

ORDER = ("refused", "warning", "ok")
STATES = {"refused": "✕ refused", "warning": "! warning", "ok": "✓ fine"}
SHOWN = 3  # findings told in full for a check
LISTED = 300  # in the table


def render(facts: Facts) -> Html:
    """Alarms first."""
    rows = [r for r in part(facts, "diagnostics", "diagnostics") if r["check"] != "browsing"]
    checks: dict[str, list[Row]] = {}
    for row in rows:
        checks.setdefault(row["check"], []).append(row)
    bad = [r for r in rows if r["verdict"] != "ok"]
    ordered = sorted(checks.items(), key=lambda c: ORDER.index(_worst(c[1])))
    intro = (
        f"{len(bad)} of {len(rows)} checks raise an alarm; below, what to do about each."
        if bad
        else f"{len(rows)} checks of the experiments and of the curve, and none raises an alarm."
    )
    return join(
        paragraph(intro),
        node("ul", *(_check(name, found) for name, found in ordered), class_="checks"),
        folded("Every finding", _table(sorted(rows, key=_rank)[:LISTED]),
               left_out(len(rows) - LISTED, "findings are", "the table `diagnostics`")),
    )  # fmt: skip


def _rank(row: Row) -> int:
    return ORDER.index(row["verdict"])


def _worst(rows: list[Row]) -> str:
    return min((r["verdict"] for r in rows), key=ORDER.index)


def _check(name: str, rows: list[Row]) -> Html:
    advice = CHECKS.get(name, UNKNOWN._replace(question=name))
    worst = _worst(rows)
    bad = [r for r in rows if r["verdict"] != "ok"]
    if bad:
        told = [paragraph(_words(r)) for r in bad[:SHOWN]]
        if len(bad) > SHOWN:
            told.append(paragraph(f"… and {len(bad) - SHOWN} more.", class_="soft"))
        told.append(paragraph(node("b", "What to do: "), advice.remedy))
    else:
        whole = [r["message"] for r in rows if r["subject"] == "all" and r["segment"] is None]
        said = advice.good + (f" {whole[0][0].upper()}{whole[0][1:]}." if whole else "")
        told = [paragraph(said + (" Nothing to do." if advice.remedy else ""), class_="soft")]
    return node("li", node("div", STATES[worst], class_="state"),
                node("div", node("h3", advice.question), *told), class_=worst)  # fmt: skip


def _words(row: Row) -> str:
    where = "" if row["segment"] is None else f"Segment {row['segment']}, "
    p = f" ({p_words(row['p_value'])})" if known(row["p_value"]) else ""
    return f"{where}{row['message']}{p}"


def _table(rows: list[Row]) -> Html:
    cells: list[list[Cell]] = [
        [segment_name(r["segment"]), r["check"].replace("_", " "), r["subject"], r["verdict"],
         p_value(r["p_value"]) if known(r["p_value"]) else Number(None, DASH), r["message"]]
        for r in rows
    ]  # fmt: skip
    return table(["traffic", "check", "of", "verdict", "p", "message"], cells, "All findings")
