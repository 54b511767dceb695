"""The methods of a comparison side by side, with their intervals."""

from __future__ import annotations

from ulr.report.charts import Span, spans_chart
from ulr.report.facts import Facts, Missing, Row, part
from ulr.report.format import DASH, fixed, interval, known, p_value, share, signed
from ulr.report.html import Cell, Html, Number, figure, folded, join, paragraph, table
from ulr.report.metrics import (
    LABELS,
    LOGGING,
    NAIVE,
    best_method,
    direction,
    gap_closed,
    judges,
    lower_is_better,
    metric_name,
    metrics_there,
    subject_name,
    subjects,
    values,
)
from ulr.report.svg import twice


def render(facts: Facts) -> Html:
    """Every method's value of the metric that decides, the best first."""
    part(facts, "metrics", "evaluation")
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
        f"{metric_name(metric)} ({direction(metric)}) on {queries:,} {judges(facts)}, "
        "with 95% intervals, whole queries as clusters. Intervals of single methods are wider than "
        "those of their differences, which are taken query by query."
    )
    alternative = f"{metric_name(metric)} by method: " + "; ".join(
        f"{s.name} {s.text}" for s in spans
    )
    draw = twice(lambda width: spans_chart(width, spans, x_name=metric_name(metric),
                                           alternative=alternative, zero=False))  # fmt: skip
    caption = "Best at the top. " + _ends(names)
    leads = _leads_table(facts, names)
    more = folded("Methods against each other, query by query", leads) if leads else None
    unknown = [n for n in subjects(facts) if n not in names]
    if unknown:
        told = ", ".join(map(subject_name, unknown))
        caption += f" Not drawn, because {metric_name(metric)} is not known of them: {told}."
    return join(intro, figure(draw, caption, _field_table(facts, [*names, *unknown])), more)


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
