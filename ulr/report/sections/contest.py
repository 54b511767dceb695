"""The model of a night against the champion: relative differences with their intervals."""

from __future__ import annotations

from typing import Any

from ulr.report import metrics
from ulr.report.blocks import Cell, Figure, Table
from ulr.report.charts.rows import IntervalsChart, Value
from ulr.report.facts import Facts, Missing, Row, require
from ulr.report.format import count, fixed, interval, known, p_value, signed

DRAWN = ("snips_dcg", "snips_mean_relevant_rank", "snips_precision_at_1", "snips_precision_at_3",
         "ips_dcg", "ndcg_at_1", "ndcg_at_3", "ndcg_at_10", "map")  # fmt: skip


def context(facts: Facts) -> dict[str, Any]:
    """Compare with the champion, or with the production ranking if there is no champion."""
    require(facts, "metrics", "evaluation")
    model = facts.methods[0]
    has_champion = metrics.CHAMPION in metrics.subjects(facts)
    rival = metrics.CHAMPION if has_champion else metrics.LOGGING
    leads = metrics.values(facts, model, rival)
    if not leads:
        raise Missing(f"{model} was evaluated alone: no difference from "
                      f"{metrics.subject_name(rival)} is stored.")  # fmt: skip
    first, _, last = facts.evaluated_on.partition("..")
    return {
        "model": model,
        "champion": has_champion,
        "reason": "" if has_champion else _reason(facts),
        "queries": count(leads.get(facts.metric, next(iter(leads.values())))["queries"] or 0),
        "kind": metrics.evaluation_queries(facts),
        "first": first,
        "last": last or first,
        "figure": _figure(facts, model, rival),
    }


def _reason(facts: Facts) -> str:
    """Return why the model is not compared with the champion."""
    if facts.verdict is None:
        return "the night ended before the comparison with the champion"
    if facts.verdict["outcome"] == "champion":
        return "this model is already the champion"
    return ("the champion could not rank these pages" if facts.verdict["champion"]
            else "there was no champion yet")  # fmt: skip


def _figure(facts: Facts, model: str, rival: str) -> Figure:
    name = metrics.subject_name(rival)
    leads, rival_values = metrics.values(facts, model, rival), metrics.values(facts, rival)
    values = [
        _relative(metric, leads[metric], rival_values[metric]["value"], metric == facts.metric)
        for metric in metrics.metrics_of(facts, model)
        if (metric in DRAWN or metric == facts.metric) and metric in leads
        and rival_values.get(metric, {}).get("value")
    ]  # fmt: skip
    if not values:
        raise Missing(f"The difference from {name} is unknown: none of its metrics has a value, "
                      "because the evaluation queries had no clicks.")  # fmt: skip
    return Figure(
        IntervalsChart(f"Difference of {model} from {name}, 95% intervals", values,
                       f"difference in % of the {name} value", "better →"),
        f"Difference in percent of the {name} value. Right of 0 is better; the sign is flipped "
        "where lower values are better. If an interval includes 0, the difference is not "
        "significant.",
        _table(facts, model, rival),
    )  # fmt: skip


def _relative(metric: str, row: Row, rival: float, strong: bool) -> Value:
    """Return the lead in percent of the rival's value, so that all metrics share an axis."""
    unit = 100 / abs(rival) * metrics.sign(metric)
    ends = sorted(unit * row[name] for name in ("lower", "upper") if known(row[name]))
    lower, upper = ends if len(ends) == 2 else (None, None)
    value = unit * row["value"]
    name = metrics.metric_name(metric)
    return Value(name, value, f"{signed(value, 1)} %", strong, lower, upper)


def _table(facts: Facts, model: str, rival: str) -> Table:
    names = [model, rival, *(n for n in metrics.subjects(facts) if n not in (model, rival))]
    own = {name: metrics.values(facts, name) for name in names}
    leads = metrics.values(facts, model, rival)
    rows: list[list[Cell]] = [
        [metrics.metric_name(metric), *(fixed(own[n].get(metric, {}).get("value")) for n in names),
         signed(lead["value"]), interval(lead["lower"], lead["upper"], sign=True),
         p_value(lead["p_value"]), metrics.better(metric), count(lead["queries"])]
        for metric in metrics.metrics_of(facts, model) if (lead := leads.get(metric))
    ]  # fmt: skip
    headings = ["metric", *map(metrics.subject_name, names), "difference", "95% interval", "p",
                "better", "queries"]  # fmt: skip
    return Table(f"Metrics of {model} and of other rankings; difference from "
                 f"{metrics.subject_name(rival)}", headings, rows)  # fmt: skip
