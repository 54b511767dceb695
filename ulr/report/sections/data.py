"""The log of the window: pages, queries and click patterns by day, and quarantined rows."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ulr.clicklog.contract import REASONS
from ulr.report.blocks import Code, Figure, Table
from ulr.report.charts.rows import BarsChart, Value
from ulr.report.facts import Facts, Row, by_method, require
from ulr.report.format import count, percent

DRAWN = 31  # days in the figure
FEW_REPEATS = 1.5  # pages per ranking and day below which lists by query are advised
DROPPED = {
    "duplicates": "repeated sessions dropped",
    "duplicate_rows": "repeated rows dropped",
    "cut": "lists truncated at `groups.max_position`",
}
COLUMNS = {"read": "rows read", "pages": "pages", "queries": "queries", "groups": "rankings",
           "patterns": "patterns", "duplicates": "duplicates", "cut": "truncated"}  # fmt: skip


def context(facts: Facts) -> dict[str, Any]:
    """Return totals of the window, a row for every day, and the quarantine."""
    days = require(facts, "days", "days of groups")
    total: Counter[str] = Counter()
    for day in days:
        total.update({name: number for name, number in day.items() if name != "date"})
    bad, read = _bad(total), max(total["read"], 1)
    training = next(iter(by_method(facts, facts.trainings).values()), {})
    return {
        "first": days[0]["date"],
        "last": days[-1]["date"],
        "totals": {
            "pages": count(total["pages"]),
            "rankings": count(total["groups"]),
            "click patterns": count(total["patterns"]),
            "training queries": count(training.get("queries")),
            "quarantined rows": f"{count(sum(bad.values()))} "
                                f"({percent(sum(bad.values()) / read, 2)})",
        },
        "repeats": _few_repeats(facts, total),
        "dropped": [f"{total[name]:,} {text}" for name, text in DROPPED.items() if total[name]],
        "figure": _figure(days),
        "reasons": Table("Quarantined rows, by reason", ["reason", "meaning", "rows", "fraction"], [
            [name, REASONS.get(name, ""), count(n), percent(n / read, 2)]
            for name, n in sorted(bad.items(), key=lambda item: (-item[1], item[0]))
        ]),
        "examples": Table("Examples of quarantined rows", ["reason", "date", "row", "source"], [
            [r["reason"], r["date"], Code(r["row"]), Code(r["source"])] for r in facts.quarantine
        ]),
    }  # fmt: skip


def _few_repeats(facts: Facts, total: Counter[str]) -> str | None:
    """Return the pages per ranking and day, if there is a list for each of almost as many pages."""
    repeats = total["pages"] / max(total["groups"], 1)
    if facts.settings.get("pairs.grouping") != "ranking" or repeats >= FEW_REPEATS:
        return None
    return f"{repeats:.1f}"


def _bad(counts: Row) -> dict[str, int]:
    """Return the numbers of quarantined rows, by reason."""
    return {name[4:]: n for name, n in counts.items() if name.startswith("bad:")}


def _figure(days: list[Row]) -> Figure:
    bars = [Value(d["date"], d.get("pages", 0), str(count(d.get("pages")))) for d in days[-DRAWN:]]
    caption = "Pages per day."
    if len(days) > DRAWN:
        caption += f" The last {DRAWN} of {len(days)} days are drawn; the table has all."
    rows = [[d["date"], *(count(d.get(name)) for name in COLUMNS), count(sum(_bad(d).values()))]
            for d in days]  # fmt: skip
    table = Table("Days", ["date", *COLUMNS.values(), "quarantined"], rows)
    return Figure(BarsChart("Pages per day", bars), caption, table)
