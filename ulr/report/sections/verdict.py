"""The verdict in one sentence, its reasons, and how the stages went."""

from __future__ import annotations

from ulr.report.facts import NIGHT, Facts, Row
from ulr.report.format import fixed, p_words, seconds, share
from ulr.report.html import Html, folded, join, node, prose, table
from ulr.report.metrics import (
    LABELS,
    LOGGING,
    best_method,
    gap_closed,
    lead,
    lower_is_better,
    metric_name,
    subjects,
    values,
)

FOR, AGAINST, NOTE = "for", "against", "note"
Reason = tuple[str, str]


def sentence(facts: Facts) -> str:
    """The one thing to know."""
    return _night_sentence(facts) if facts.kind == NIGHT else _comparison_sentence(facts)


def render(facts: Facts) -> Html:
    """Reasons, then the stages."""
    reasons = _night_reasons(facts) if facts.kind == NIGHT else _comparison_reasons(facts)
    said = {FOR: "speaks for it: ", AGAINST: "speaks against it: ", NOTE: ""}
    items = [
        node("li", node("span", said[kind], class_="visually-hidden"), prose(words), class_=kind)
        for kind, words in reasons
    ]
    listed = node("ul", *items, class_="reasons") if items else None
    return join(listed, _stages(facts.stages) if facts.stages else None)


def _night_sentence(facts: Facts) -> str:
    failed = next((s for s in facts.stages if s["status"] == "failed"), None)
    if failed:
        return f"The night failed in {failed['stage']}; the champion stays what it was."
    verdict = facts.verdict
    if not verdict:
        return "No model was put to the test this night; the champion stays what it was."
    who = f"Version {verdict['version']}, trained by {facts.methods[0]},"
    before = verdict["champion"]
    return {
        "promoted": f"{who} is the new champion, after version {before}." if before
        else f"{who} is the first champion.",
        "kept": f"{who} is refused; version {before} stays champion." if before
        else f"{who} is refused; there is still no champion.",
        "champion": f"{who} is the champion already; nothing has changed.",
    }.get(verdict["outcome"], f"{who}: {verdict['outcome']}.")  # fmt: skip


def _night_reasons(facts: Facts) -> list[Reason]:
    found = [(AGAINST, f"{s['stage']}: {s['message']}")
             for s in facts.stages if s["status"] == "failed"]  # fmt: skip
    if facts.verdict:
        bad = set(facts.verdict["against"])
        found += [(AGAINST if r in bad else FOR, r) for r in facts.verdict["reasons"]]
    return found


def _comparison_sentence(facts: Facts) -> str:
    best = best_method(facts)
    if best is None:
        return "Nothing could be compared."
    row = values(facts, best)[facts.metric]
    closed = gap_closed(facts, best, facts.metric)
    rivals = [n for n in subjects(facts) if n not in (LABELS, LOGGING)]
    told = f"The best of {len(rivals)} methods is {best}: " if len(rivals) > 1 else f"{best}: "
    told += f"{metric_name(facts.metric)} {fixed(row['value']).text}"
    if closed is not None and closed > 0:
        told += f", {share(closed, 0).text} of the way from naive clicks to golden labels"
    return told + "."


def _comparison_reasons(facts: Facts) -> list[Reason]:
    """The leader against each of the others, where the two were compared query by query."""
    best = best_method(facts)
    if best is None:
        return []
    found = []
    for rival in subjects(facts):
        row = lead(facts, best, rival, facts.metric)
        if row is not None and rival != LABELS:
            found.append(_against(rival, row, lower_is_better(facts.metric)))
    return found


def _against(rival: str, row: Row, lower: bool) -> Reason:
    ahead = row["value"] < 0 if lower else row["value"] > 0
    clear = (row["p_value"] if row["p_value"] is not None else 1.0) < 0.05
    name = "the ranking that was shown" if rival == LOGGING else rival
    judged = "ahead of" if ahead else "behind"
    said = f"{judged} {name} by {fixed(abs(row['value'])).text}, {p_words(row['p_value'])}"
    if not clear:
        return NOTE, f"{said}: too close to call"
    return (FOR if ahead else AGAINST), said


def _stages(stages: list[Row]) -> Html:
    items = [
        node(
            "li",
            node("b", s["stage"]),
            node("span", _status(s)),
            class_=s["status"].replace(" ", "-"),
        )
        for s in stages
    ]
    rows = [[s["stage"], s["status"], seconds(s["seconds"]), s["message"]] for s in stages]
    return join(
        node("ol", *items, class_="stages"),
        folded(
            "What each stage said", table(["stage", "status", "time", "message"], rows, "Stages")
        ),
    )


def _status(stage: Row) -> str:
    if stage["status"] == "done":
        return f"✓ {seconds(stage['seconds']).text}"
    return {"skipped": "✓ unchanged", "failed": "✕ failed", "not run": "– not run"}.get(
        stage["status"], stage["status"]
    )
