"""The metrics by their names, and how rows of the metrics table are looked up."""

from __future__ import annotations

from ulr.evaluation.metrics import is_lower_better as lower_is_better
from ulr.report.facts import Facts, Row
from ulr.report.format import known

# In the order of the tables; "_at_K", which settings choose, is left out of the names.
NAMES = {
    "snips_dcg": "SNIPS DCG",
    "snips_arp": "SNIPS average rank",
    "snips_precision": "SNIPS precision",
    "ips_dcg": "IPS DCG",
    "ips_arp": "IPS average rank",
    "ips_precision": "IPS precision",
    "pair_loss": "pairwise loss",
    "ndcg": "NDCG",
    "map": "MAP",
    "arp": "average rank (labels)",
    "err": "ERR",
}
LOGGING, CHAMPION, LABELS, NAIVE = "logging", "champion", "labels", "naive"
SUBJECTS = {LOGGING: "as shown", CHAMPION: "champion"}


def metric_name(name: str) -> str:
    """A metric as people call it."""
    family, at, cut = name.partition("_at_")
    return f"{NAMES[family]}{at and '@'}{cut}" if family in NAMES else name


def direction(name: str) -> str:
    """Which way is better."""
    return "lower is better" if lower_is_better(name) else "higher is better"


def subject_name(subject: str) -> str:
    """A ranking as people call it."""
    return SUBJECTS.get(subject, subject)


def values(facts: Facts, subject: str, against: str | None = None) -> dict[str, Row]:
    """Rows over all positions by metric, of a ranking or of its lead over another.

    A number that the data did not give, such as a mean over no clicks, is left out.
    """
    return {
        row["name"]: row
        for row in facts.metrics
        if row["subject"] == subject and row["against"] == against and row["position"] is None
        and known(row["value"])
    }  # fmt: skip


def judges(facts: Facts) -> str:
    """By which queries models were judged, as the settings say."""
    return {
        "time": "queries of days that no model was trained on",
        "none": "queries, also of those that the models were trained on",
    }.get(facts.settings.get("evaluate.holdout", ""), "queries that no model was trained on")


def learned_from(facts: Facts) -> list[str]:
    """The dates of the window that models were trained on: not the one that was kept to judge."""
    by_time = facts.settings.get("evaluate.holdout") == "time"
    return facts.window[:-1] if by_time and len(facts.window) > 1 else facts.window


def lead(facts: Facts, ours: str, rival: str, metric: str) -> Row | None:
    """Ours minus theirs, whichever way round it was stored."""
    found = values(facts, ours, rival).get(metric)
    if found is not None:
        return found
    back = values(facts, rival, ours).get(metric)
    if back is None:
        return None
    ends = {"lower": back["upper"], "upper": back["lower"], "value": back["value"]}
    return back | {name: None if v is None else -v for name, v in ends.items()}


def subjects(facts: Facts) -> list[str]:
    """The rankings that were judged: methods first, then the champion, then what was shown."""
    there = {row["subject"] for row in facts.metrics}
    ordered = [*facts.methods, CHAMPION, LOGGING]
    return [name for name in ordered if name in there] + sorted(there - set(ordered))


def best_method(facts: Facts) -> str | None:
    """The method that leads; golden labels are the upper end and take no part."""
    sign = 1 if lower_is_better(facts.metric) else -1
    found = [(sign * values(facts, name)[facts.metric]["value"], name)
             for name in subjects(facts)
             if name not in (LABELS, LOGGING) and facts.metric in values(facts, name)]  # fmt: skip
    return min(found)[1] if found else None


def gap_closed(facts: Facts, method: str, metric: str) -> float | None:
    """The method's share of the way from naive to golden labels; None where labels do not lead."""
    rows = [values(facts, name).get(metric) for name in (NAIVE, LABELS, method)]
    if not all(rows):
        return None
    low, high, own = (row["value"] * (-1 if lower_is_better(metric) else 1) for row in rows)
    return (own - low) / (high - low) if high > low else None


def metrics_there(facts: Facts, subject: str) -> list[str]:
    """The metric that decides, then the known ones in their order, then any other."""
    order = {name: n for n, name in enumerate(NAMES)}

    def place(name: str) -> tuple[bool, int, int, str]:
        family, _, cut = name.partition("_at_")
        return name != facts.metric, order.get(family, len(order)), int(cut or 0), name

    return sorted(values(facts, subject), key=place)
