"""Champion against challenger, or the methods of a comparison, with their intervals."""

from __future__ import annotations

from ulr.report.charts import Span, spans_chart
from ulr.report.facts import NIGHT, Facts, Missing, Row, part
from ulr.report.html import Cell, Html, Number, figure, folded, join, paragraph, table
from ulr.report.measures import (
    CHAMPION,
    LABELS,
    LOGGING,
    NAIVE,
    direction,
    lower_is_better,
    metric_name,
    metrics_there,
    subject_name,
    subjects,
    values,
)
from ulr.report.numbers import DASH, fixed, interval, known, p_value, share, signed
from ulr.report.sections.verdict import best_method, gap_closed
from ulr.report.svg import twice

DRAWN = ("snips_dcg", "snips_arp", "snips_precision_at_1", "snips_precision_at_3", "ips_dcg",
         "ndcg_at_1", "ndcg_at_3", "ndcg_at_10", "map")  # fmt: skip


def render(facts: Facts) -> Html:
    """The leads of the model over the champion; or every method's value, the best first."""
    part(facts, "metrics", "evaluation")
    return _duel(facts) if facts.kind == NIGHT else _field(facts)


def _duel(facts: Facts) -> Html:
    ours = facts.methods[0]
    there = subjects(facts)
    rival = CHAMPION if CHAMPION in there else LOGGING
    leads, theirs = values(facts, ours, rival), values(facts, rival)
    if not leads:
        raise Missing(f"{ours} was judged alone: no lead over {subject_name(rival)} is stored.")
    who = (
        "the champion"
        if rival == CHAMPION
        else "the ranking that was shown; there was no champion to compare with"
    )
    drawn = [_lead(facts, m, leads[m], theirs[m]) for m in metrics_there(facts, ours)
             if m in leads and m in theirs and (m in DRAWN or m == facts.metric)]  # fmt: skip
    spans = [one for one in drawn if one is not None]
    queries = max(row["queries"] or 0 for row in leads.values())
    intro = paragraph(
        f"{ours} against {who}, judged by {queries:,} queries that no model was trained on"
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


def _dates(judged: str) -> str:
    first, _, last = judged.partition("..")
    return f"on {first}" if last in ("", first) else f"from {first} to {last}"


def _lead(facts: Facts, metric: str, row: Row, rival: Row) -> Span | None:
    """The lead as a share of the rival's value, so that metrics of any unit share an axis."""
    if not rival["value"] or not known(row["value"]):
        return None
    unit = 100 / abs(rival["value"]) * (-1 if lower_is_better(metric) else 1)
    ends = sorted(
        unit * row[name] if known(row[name]) else float("nan") for name in ("lower", "upper")
    )
    value = unit * row["value"]
    return Span(metric_name(metric), value, ends[0], ends[1],
                signed(value, 1).text + " %", strong=metric == facts.metric)  # fmt: skip


def _duel_table(facts: Facts, ours: str, rival: str, there: list[str]) -> Html:
    others = [rival, *(name for name in there if name not in (ours, rival))]
    headings = [
        "metric",
        ours,
        *(subject_name(o) for o in others),
        "lead",
        "95% interval",
        "p",
        "better",
    ]
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
                     direction(metric).split()[0]])  # fmt: skip
    return table(headings, rows, f"{ours} and its rivals; lead over {subject_name(rival)}")


def _field(facts: Facts) -> Html:
    """Every method's value of the metric that decides."""
    metric = facts.metric
    names = [n for n in subjects(facts) if metric in values(facts, n)]
    if not names:
        raise Missing(f"{metric_name(metric)} was not measured.")
    names.sort(
        key=lambda n: values(facts, n)[metric]["value"] * (1 if lower_is_better(metric) else -1)
    )
    best = best_method(facts)
    spans = []
    for name in names:
        row = values(facts, name)[metric]
        spans.append(Span(subject_name(name), row["value"], row["lower"], row["upper"],
                          fixed(row["value"]).text, strong=name == best))  # fmt: skip
    queries = max(values(facts, n)[metric]["queries"] or 0 for n in names)
    intro = paragraph(
        f"{metric_name(metric)} ({direction(metric)}) on {queries:,} queries that no model was "
        "trained on, with 95% intervals, whole queries as clusters. Intervals of single methods "
        "are wider than those of their differences, which are taken query by query."
    )
    alternative = f"{metric_name(metric)} by method: " + "; ".join(
        f"{s.name} {s.text}" for s in spans
    )
    draw = twice(lambda width: spans_chart(width, spans, x_name=metric_name(metric),
                                           alternative=alternative, zero=False))  # fmt: skip
    caption = "Best at the top. " + _ends(names)
    leads = _leads_table(facts, names)
    more = folded("Methods against each other, query by query", leads) if leads else None
    return join(intro, figure(draw, caption, _field_table(facts, names)), more)


def _ends(names: list[str]) -> str:
    told = []
    if LABELS in names:
        told.append("labels learned from golden relevance: what the same trees can reach")
    if NAIVE in names:
        told.append("naive takes clicks as they come")
    if LOGGING in names:
        told.append("as shown is the production ranking")
    return (told[0][0].upper() + "; ".join(told)[1:] + ".") if told else ""


def _field_table(facts: Facts, names: list[str]) -> Html:
    metrics = list(dict.fromkeys(m for n in names for m in metrics_there(facts, n)))
    gap = any(gap_closed(facts, n, facts.metric) is not None for n in names)
    headings = ["method", *(metric_name(m) for m in metrics), *(["gap closed"] if gap else [])]
    rows: list[list[Cell]] = []
    for name in names:
        found = values(facts, name)
        cells: list[Cell] = [_with_reach(found.get(m)) for m in metrics]
        closed = [share(gap_closed(facts, name, facts.metric), 0)] if gap else []
        rows.append([subject_name(name), *cells, *closed])
    return table(headings, rows, "Every metric with half its 95% interval")


def _with_reach(row: Row | None) -> Number:
    if row is None:
        return Number(None, DASH)
    reach = f" ±{row['value'] - row['lower']:.4f}" if known(row["lower"]) else ""
    return Number(row["value"], f"{row['value']:.4f}{reach}")


def _leads_table(facts: Facts, names: list[str]) -> Html | None:
    rows: list[list[Cell]] = []
    for ours in names:
        for rival in names:
            row = values(facts, ours, rival).get(facts.metric)
            if row is not None:
                rows.append([subject_name(ours), subject_name(rival), signed(row["value"]),
                             interval(row["lower"], row["upper"], sign=True),
                             p_value(row["p_value"])])  # fmt: skip
    if not rows:
        return None
    return table(["method", "against", "lead", "95% interval", "p"], rows,
                 f"Leads in {metric_name(facts.metric)}")  # fmt: skip
