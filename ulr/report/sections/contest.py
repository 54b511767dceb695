"""Champion against challenger: the leads of a night's model, with their intervals."""

from __future__ import annotations

from ulr.report.charts import Span, spans_chart
from ulr.report.facts import Facts, Missing, Row, part
from ulr.report.format import count, fixed, interval, known, p_value, signed
from ulr.report.html import Cell, Html, figure, join, paragraph, table
from ulr.report.metrics import (
    CHAMPION,
    LOGGING,
    direction,
    judges,
    lower_is_better,
    metric_name,
    metrics_there,
    subject_name,
    subjects,
    values,
)
from ulr.report.svg import twice

DRAWN = ("snips_dcg", "snips_arp", "snips_precision_at_1", "snips_precision_at_3", "ips_dcg",
         "ndcg_at_1", "ndcg_at_3", "ndcg_at_10", "map")  # fmt: skip


def render(facts: Facts) -> Html:
    """The leads over the champion, or over the ranking that was shown where there was none."""
    part(facts, "metrics", "evaluation")
    ours = facts.methods[0]
    there = subjects(facts)
    rival = CHAMPION if CHAMPION in there else LOGGING
    leads, theirs = values(facts, ours, rival), values(facts, rival)
    if not leads:
        raise Missing(f"{ours} was judged alone: no lead over {subject_name(rival)} is stored.")
    who = "the champion" if rival == CHAMPION else f"the ranking that was shown{_why_not(facts)}"
    drawn = [_lead(facts, m, leads[m], theirs[m]) for m in metrics_there(facts, ours)
             if m in leads and m in theirs and (m in DRAWN or m == facts.metric)]  # fmt: skip
    spans = [one for one in drawn if one is not None]
    if not spans:
        raise Missing(f"No lead over {subject_name(rival)} can be told: its own value is not known "
                      "for any metric; the queries that judge had no clicks.")  # fmt: skip
    queries = (leads.get(facts.metric) or next(iter(leads.values())))["queries"] or 0
    intro = paragraph(
        f"{ours} against {who}, judged by {queries:,} {judges(facts)}"
        + (f", shown {_dates(facts.judged)}" if facts.judged else "")
        + ". Both rank the same pages, and are compared query by query; intervals are 95%, with "
        "whole queries as clusters."
    )
    alternative = f"Lead of {ours} over {subject_name(rival)} with 95% intervals: " + "; ".join(
        f"{s.name} {s.text}" for s in spans
    )
    whose = "champion's" if rival == CHAMPION else "shown ranking's"
    draw = twice(lambda width: spans_chart(
        width, spans, x_name=f"lead in % of the {whose} value", alternative=alternative, zero=True,
        sides="better →"))  # fmt: skip
    caption = ("Lead over the rival in per cent of its value, turned so that right is better. An "
               "interval that crosses the line at 0 leaves the difference open.")  # fmt: skip
    return join(intro, figure(draw, caption, _duel_table(facts, ours, rival, there)))


def _why_not(facts: Facts) -> str:
    """Why the rival is not the champion."""
    if facts.verdict is None:
        return ", for the night did not come as far as the champion"
    if facts.verdict["outcome"] == "champion":
        return ", for it is the champion itself"
    return ", for " + ("the champion could not rank these pages" if facts.verdict["champion"]
                       else "there was no champion yet")  # fmt: skip


def _dates(judged: str) -> str:
    first, _, last = judged.partition("..")
    return f"on {first}" if last in ("", first) else f"from {first} to {last}"


def _lead(facts: Facts, metric: str, row: Row, rival: Row) -> Span | None:
    """The lead as a share of the rival's value, so that metrics of any unit share an axis."""
    if not rival["value"] or not known(row["value"]):
        return None
    unit = 100 / abs(rival["value"]) * (-1 if lower_is_better(metric) else 1)
    ends = sorted(unit * row[name] for name in ("lower", "upper") if known(row[name]))
    lower, upper = ends if len(ends) == 2 else (None, None)
    value = unit * row["value"]
    return Span(metric_name(metric), value, lower, upper, signed(value, 1).text + " %",
                strong=metric == facts.metric)  # fmt: skip


def _duel_table(facts: Facts, ours: str, rival: str, there: list[str]) -> Html:
    others = [rival, *(name for name in there if name not in (ours, rival))]
    headings = ["metric", ours, *(subject_name(o) for o in others), "lead", "95% interval", "p",
                "better", "queries"]  # fmt: skip
    leads = values(facts, ours, rival)
    rows: list[list[Cell]] = []
    for metric in metrics_there(facts, ours):
        lead = leads.get(metric)
        if lead is None:
            continue
        cells = [
            fixed(values(facts, name).get(metric, {}).get("value")) for name in (ours, *others)
        ]
        rows.append([metric_name(metric), *cells, signed(lead["value"]),
                     interval(lead["lower"], lead["upper"], sign=True), p_value(lead["p_value"]),
                     direction(metric).split()[0], count(lead["queries"])])  # fmt: skip
    return table(headings, rows, f"{ours} and its rivals; lead over {subject_name(rival)}")
