"""What was read: days, pages, queries, patterns; and what was set aside, with examples."""

from __future__ import annotations

from collections import Counter

from ulr.clicklog.contract import REASONS
from ulr.report.charts import bars_chart
from ulr.report.facts import Facts, Row, by_method, part
from ulr.report.format import count, share
from ulr.report.html import Cell, Html, figure, join, node, paragraph, table
from ulr.report.svg import twice

DRAWN = 31  # days in the figure
LEFT_OUT = {
    "duplicates": "repeated sessions, dropped",
    "duplicate_rows": "repeated rows, dropped",
    "cut": "lists cut at `groups.max_position`",
}


def render(facts: Facts) -> Html:
    """Totals of the window, a row for every day, and the quarantine."""
    days = part(facts, "days", "days of groups")
    total: Counter[str] = Counter()
    for day in days:
        total.update({k: v for k, v in day.items() if k != "date"})
    bad = sum(n for name, n in total.items() if name.startswith("bad:"))
    trained = next(iter(by_method(facts, facts.trainings).values()), {})
    figures = {
        "window": _window(days),
        "pages": count(total["pages"]).text,
        "rankings": count(total["groups"]).text,
        "click patterns": count(total["patterns"]).text,
        "queries trained on": count(trained.get("queries")).text,
        "rows set aside": f"{count(bad).text} ({share(bad / max(total['read'], 1), 2).text})",
    }
    shown = [node("div", node("dt", k), node("dd", v)) for k, v in figures.items()]
    left = [f"{total[name]:,} {words}" for name, words in LEFT_OUT.items() if total[name]]
    return join(
        node("dl", *shown, class_="facts"),
        paragraph("Also left out: " + "; ".join(left) + ".") if left else None,
        _days_figure(days),
        node("h3", "Quarantine"),
        _quarantine(facts, total, bad),
    )


def _window(days: list[Row]) -> Html:
    first, last = (node("span", day["date"], class_="whole") for day in (days[0], days[-1]))
    return first if first == last else join(first, " to ", last)


def _days_figure(days: list[Row]) -> Html:
    shown = days[-DRAWN:]
    bars = [(d["date"], d.get("pages", 0), count(d.get("pages")).text, False) for d in shown]
    alternative = "Pages by day: " + "; ".join(f"{name} {text}" for name, _, text, _ in bars)
    draw = twice(lambda width: bars_chart(width, bars, alternative=alternative))
    names = ("read", "pages", "queries", "groups", "patterns", "duplicates", "cut")
    rows: list[list[Cell]] = [
        [d["date"], *(count(d.get(n)) for n in names), count(_bad(d))] for d in days
    ]
    headings = [
        "date",
        "rows read",
        "pages",
        "queries",
        "rankings",
        "patterns",
        "duplicates",
        "cut",
        "set aside",
    ]
    caption = "Pages of the window, day by day."
    if len(days) > DRAWN:
        caption += f" The last {DRAWN} of {len(days)} days are drawn; the table has all."
    return figure(draw, caption, table(headings, rows, "Days"))


def _bad(day: Row) -> int:
    return sum(n for name, n in day.items() if name.startswith("bad:"))


def _quarantine(facts: Facts, total: Counter[str], bad: int) -> Html:
    if not bad:
        return paragraph("Every row kept the contract; nothing was set aside.")
    reasons = Counter({n[4:]: c for n, c in total.items() if n.startswith("bad:")})
    rows: list[list[Cell]] = [
        [name, REASONS.get(name, ""), count(n), share(n / max(total["read"], 1), 2)]
        for name, n in sorted(reasons.items(), key=lambda r: (-r[1], r[0]))
    ]
    parts = [table(["reason", "meaning", "rows", "share"], rows, "Rows set aside, by reason")]
    if facts.quarantine:
        examples: list[list[Cell]] = [
            [r["reason"], r["date"], node("code", r["row"]), node("code", r["source"])]
            for r in facts.quarantine
        ]
        parts.append(
            table(["reason", "date", "row", "source"], examples, "Examples, as they were read")
        )
    return join(*parts)
