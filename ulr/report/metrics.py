"""Names of metrics and rankings, and lookups in the rows of the metrics table."""

from __future__ import annotations

from ulr.evaluation.metrics import is_lower_better
from ulr.report.facts import Facts, Row
from ulr.report.format import known

# In the order of the tables; the cutoff "_at_K" is not part of these names.
NAMES = {
    "snips_dcg": "SNIPS DCG",
    "snips_mean_relevant_rank": "SNIPS mean relevant rank",
    "snips_precision": "SNIPS precision",
    "ips_dcg": "IPS DCG",
    "ips_mean_relevant_rank": "IPS mean relevant rank",
    "ips_precision": "IPS precision",
    "pair_loss": "pairwise loss",
    "ndcg": "NDCG",
    "map": "MAP",
    "mean_relevant_rank": "mean relevant rank (labels)",
    "err": "ERR",
}
LOGGING, CHAMPION, LABELS, NAIVE = "logging", "champion", "labels", "naive"


def metric_name(name: str) -> str:
    """Return the name of a metric on the page, such as NDCG@10."""
    family, at, cutoff = name.partition("_at_")
    return f"{NAMES[family]}{at and '@'}{cutoff}" if family in NAMES else name


def sign(name: str) -> int:
    """Return 1 for a metric of which higher values are better, -1 for the others."""
    return -1 if is_lower_better(name) else 1


def better(name: str) -> str:
    """Return `lower` or `higher`, whichever is better."""
    return "lower" if is_lower_better(name) else "higher"


def subject_name(subject: str) -> str:
    """Return the name of a ranking on the page."""
    return "production" if subject == LOGGING else subject


def values(facts: Facts, subject: str, against: str | None = None) -> dict[str, Row]:
    """Return rows over all positions by metric: of a ranking, or of its lead over another.

    Metrics without a value, such as a mean over no clicks, are left out.
    """
    return {
        row["name"]: row
        for row in facts.metrics
        if row["subject"] == subject and row["against"] == against and row["position"] is None
        and known(row["value"])
    }  # fmt: skip


def evaluation_queries(facts: Facts) -> str:
    """Return which queries the rankings were evaluated on, according to the settings."""
    return {
        "time": "queries of held-out days",
        "none": "queries, including those used for training",
    }.get(facts.settings.get("evaluate.holdout", ""), "held-out queries")


def training_dates(facts: Facts) -> list[str]:
    """Return the dates of the window without the one held out for evaluation."""
    by_time = facts.settings.get("evaluate.holdout") == "time"
    return facts.window[:-1] if by_time and len(facts.window) > 1 else facts.window


def lead(facts: Facts, subject: str, rival: str, metric: str) -> Row | None:
    """Return the row of subject minus rival, also if the metrics table has rival minus subject."""
    row = values(facts, subject, rival).get(metric)
    reverse = values(facts, rival, subject).get(metric)
    if row is not None or reverse is None:
        return row
    ends = {"lower": reverse["upper"], "upper": reverse["lower"], "value": reverse["value"]}
    return reverse | {name: None if v is None else -v for name, v in ends.items()}


def subjects(facts: Facts) -> list[str]:
    """Return the evaluated rankings: methods first, then the champion, then production."""
    evaluated = {row["subject"] for row in facts.metrics}
    ordered = [*facts.methods, CHAMPION, LOGGING]
    return [name for name in ordered if name in evaluated] + sorted(evaluated - set(ordered))


def best_method(facts: Facts) -> str | None:
    """Return the best method by the metric that decides; labels are only the upper bound."""
    ranked = [(-sign(facts.metric) * row["value"], name) for name in subjects(facts)
              if name not in (LABELS, LOGGING)
              and (row := values(facts, name).get(facts.metric))]  # fmt: skip
    return min(ranked)[1] if ranked else None


def gap_closed(facts: Facts, method: str, metric: str) -> float | None:
    """Return how much of the gap from naive to labels the method closes; None without a gap."""
    rows = [values(facts, name).get(metric) for name in (NAIVE, LABELS, method)]
    scores = [sign(metric) * row["value"] for row in rows if row is not None]
    if len(scores) < 3 or scores[1] <= scores[0]:
        return None
    low, high, own = scores
    return (own - low) / (high - low)


def metrics_of(facts: Facts, subject: str) -> list[str]:
    """Return the metrics of a ranking: the one that decides, then those of NAMES, then others."""
    order = {name: n for n, name in enumerate(NAMES)}

    def place(name: str) -> tuple[bool, int, int, str]:
        family, _, cutoff = name.partition("_at_")
        return name != facts.metric, order.get(family, len(order)), int(cutoff or 0), name

    return sorted(values(facts, subject), key=place)
