"""The verdict in one sentence, its reasons, and the stages of a night."""

from __future__ import annotations

from typing import Any

from ulr.report import metrics
from ulr.report.blocks import Table
from ulr.report.facts import NIGHT, Facts, Row
from ulr.report.format import duration, fixed, p_equals, percent

FOR, AGAINST, NOTE = "for", "against", "note"
Reason = tuple[str, str]
SIGNIFICANT = 0.05
STATUS = {"skipped": "✓ unchanged", "failed": "✕ failed", "not run": "– not run"}


def sentence(facts: Facts) -> str:
    """Return the heading of the page."""
    return _night_sentence(facts) if facts.kind == NIGHT else _comparison_sentence(facts)


def context(facts: Facts) -> dict[str, Any]:
    """Return the reasons, and the stages with their messages."""
    reasons = _night_reasons(facts) if facts.kind == NIGHT else _comparison_reasons(facts)
    rows = [[s["stage"], s["status"], duration(s["seconds"]), s["message"]] for s in facts.stages]
    return {
        "reasons": reasons,
        "stages": [stage | {"text": _status(stage)} for stage in facts.stages],
        "messages": Table("Stages", ["stage", "status", "time", "message"], rows),
    }


def _night_sentence(facts: Facts) -> str:
    failed = next((s for s in facts.stages if s["status"] == "failed"), None)
    if failed:
        return f"The night failed in stage {failed['stage']}; the champion is unchanged."
    verdict = facts.verdict
    if not verdict:
        return "No model was evaluated for promotion; the champion is unchanged."
    model = f"Version {verdict['version']}, trained with {facts.methods[0]},"
    previous = verdict["champion"]
    sentence = {
        "promoted": f"{model} is the new champion and replaces version {previous}." if previous
        else f"{model} is the first champion.",
        "kept": f"{model} was not promoted; version {previous} remains champion." if previous
        else f"{model} was not promoted; there is no champion yet.",
        "champion": f"{model} is already the champion; nothing changed.",
    }.get(verdict["outcome"], f"{model}: {verdict['outcome']}.")  # fmt: skip
    if verdict.get("undecided"):
        rule = facts.settings.get("promote.undecided", "estimate")
        sentence += f" The data are too few to decide: promote.undecided = {rule}."
    return sentence


def _night_reasons(facts: Facts) -> list[Reason]:
    reasons = [(AGAINST, f"{s['stage']}: {s['message']}")
               for s in facts.stages if s["status"] == "failed"]  # fmt: skip
    verdict = facts.verdict or {"reasons": [], "against": []}
    return reasons + [(AGAINST if reason in verdict["against"] else FOR, reason)
                      for reason in verdict["reasons"]]  # fmt: skip


def _comparison_sentence(facts: Facts) -> str:
    best, metric = metrics.best_method(facts), metrics.metric_name(facts.metric)
    if best is None:
        return f"No method could be evaluated: {metric} has no value."
    methods = [n for n in metrics.subjects(facts) if n not in (metrics.LABELS, metrics.LOGGING)]
    text = f"The best of {len(methods)} methods is {best}: " if len(methods) > 1 else f"{best}: "
    text += f"{metric} {fixed(metrics.values(facts, best)[facts.metric]['value'])}"
    closed = metrics.gap_closed(facts, best, facts.metric)
    if closed is not None and closed > 0:
        text += f", {percent(closed, 0)} of the way from naive clicks to golden labels"
    return f"{text}."


def _comparison_reasons(facts: Facts) -> list[Reason]:
    """Return the differences between the best method and the others, labels excepted."""
    best = metrics.best_method(facts)
    if best is None:
        return []
    return [_difference(rival, row, metrics.sign(facts.metric))
            for rival in metrics.subjects(facts)
            if rival != metrics.LABELS
            and (row := metrics.lead(facts, best, rival, facts.metric))]  # fmt: skip


def _difference(rival: str, row: Row, sign: int) -> Reason:
    better = sign * row["value"] > 0
    name = "the production ranking" if rival == metrics.LOGGING else rival
    size = f"{fixed(abs(row['value']))}, {p_equals(row['p_value'])}"
    text = f"{'better' if better else 'worse'} than {name} by {size}"
    if row["p_value"] is None or row["p_value"] >= SIGNIFICANT:
        return NOTE, f"{text}: not significant"
    return (FOR if better else AGAINST), text


def _status(stage: Row) -> str:
    status: str = stage["status"]
    return f"✓ {duration(stage['seconds'])}" if status == "done" else STATUS.get(status, status)
