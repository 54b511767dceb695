"""One line of text for the outcome of each stage."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ulr.warehouse.retention import Expired
from ulr.warehouse.tables import Outcome

if TYPE_CHECKING:  # import MLflow and LightGBM
    from ulr.registry.promotion import Decision
    from ulr.training.stage import ModelOutcome

_PAIR_NOTES = {
    "documents_without_features": "documents without features dropped",
    "documents_too_deep": "documents below the last known position left out",
    "duplicate_features": "repeated feature rows ignored",
    "groups_without_pairs": "rankings without a pair",
    "queries_without_pairs": "queries without a pair",
}


def describe_groups(outcome: Outcome) -> str:
    """Return pages read, groups published, and everything that was left out."""
    counts = outcome.manifest.counts
    bad = sum(n for name, n in counts.items() if name.startswith("bad:"))
    text = (
        f"{counts['pages']:,} pages -> {counts.get('groups', 0):,} groups, "
        f"{counts.get('patterns', 0):,} patterns"
    )
    if "features" in counts:
        text += f"; features of {counts['features']:,} documents"
    for number, note in (
        (bad, "quarantined"),
        (counts["duplicates"], "duplicate sessions dropped"),
        (counts["duplicate_rows"], "duplicate rows dropped"),
        (counts["cut"], "lists cut"),
    ):
        text += f"; {number:,} {note}" if number else ""
    if counts.get("read") == 0:
        text += "; the log has no row of this date"
    return with_status(outcome, text)


def describe_pairs(outcome: Outcome) -> str:
    """Return sessions read, pairs published, and everything that was left out."""
    counts = outcome.manifest.counts
    text = (
        f"{counts.get('sessions', 0):,} sessions in {counts.get('groups', 0):,} rankings -> "
        f"{counts.get('pairs', 0):,} pairs of {counts.get('documents', 0):,} documents"
    )
    for name, note in _PAIR_NOTES.items():
        text += f"; {counts[name]:,} {note}" if counts.get(name) else ""
    return with_status(outcome, text)


def describe_training(outcome: ModelOutcome) -> str:
    """Return the size of the model and its data, then a line per failed attempt and warning."""
    counts = outcome.manifest.counts
    if outcome.training is None:
        return f"unchanged, skipped ({_model_size(counts)})"
    text = f"{_model_size(counts)} on {counts['rows']:,} documents, {counts['pairs']:,} pairs"
    if choice := outcome.training.ranker.choice:
        text += f"; {choice['method']}, {choice['num_leaves']} leaves: {choice['reason']}"
    workers, failures = outcome.training.reports, outcome.training.failures
    if len(workers) > 1:
        text += f", by {len(workers)} workers"
    for number, reason in enumerate(failures, start=1):
        text += f"\n  attempt {number} failed, resumed from the last checkpoint: {reason}"
    for warning in outcome.training.ranker.warnings:
        text += f"\n  warning: {warning}"
    return with_status(outcome, text)


def _model_size(counts: Mapping[str, int]) -> str:
    """Return the number of trees, or of weights of a linear model."""
    if "weights" in counts:
        return f"linear model of {counts['weights']:,} weights"
    return f"{counts['trees']:,} trees"


def describe_decision(decision: Decision) -> str:
    """Return the outcome of a promotion, then a line per reason."""
    verdict = decision.verdict
    head = {
        "promoted": f"version {decision.version} is the new champion",
        "kept": f"version {decision.version} is refused, the champion stays",
        "champion": f"version {decision.version} is the champion already",
        "dry run": f"would be {'promoted' if verdict.passed else 'refused'}; nothing was changed",
    }[decision.outcome]
    bad = set(verdict.against)
    lines = [f"  {'against' if r in bad else 'for'}: {r}" for r in verdict.reasons]
    return "\n".join([head, *lines])


def describe_expired(expired: list[Expired], *, dry_run: bool = False) -> str:
    """Return what was removed, or would be, by table."""
    if not expired:
        return "nothing is older than its retention"
    dates: dict[str, list[dt.date]] = {}
    for one in expired:
        dates.setdefault(one.table, []).append(one.date)
    verb = "would remove" if dry_run else "removed"
    parts = [f"{table} {span[0]} to {span[-1]} ({len(span)} dates)"
             for table, span in sorted(dates.items())]  # fmt: skip
    return f"{verb} {', '.join(parts)}: {sum(one.size for one in expired) / 1e6:,.1f} MB"


def with_status(outcome: Outcome, text: str) -> str:
    """Return the text of an outcome with a note if it was skipped, or rebuilt after damage."""
    if outcome.damage:
        return f"{text}; rebuilt, because {outcome.damage}"
    return f"unchanged, skipped ({text})" if outcome.skipped else text
