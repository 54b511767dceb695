"""Challenger to champion: register, compare, judge, write the verdict down, move the alias.

The verdict is on the version before the alias moves, so a crash in between is finished by the
next run, and every step repeated leaves what it left before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ulr.config.settings import Promote
from ulr.errors import UserError
from ulr.evaluation.totals import Estimate, Totals, metric_values
from ulr.models.booster import feature_difference
from ulr.registry import CHALLENGER, CHAMPION, Registered, Registry
from ulr.registry.gate import Verdict, decide
from ulr.registry.outbox import queue_if_unavailable, sync
from ulr.registry.submission import Submission
from ulr.warehouse.tables import Warehouse

PREVIOUS, ROLLED_BACK = "ulr.previous_champion", "ulr.rolled_back"
SAMPLE_SIZE = "weights_effective_sample_size"
Judge = Callable[[str], Totals]  # the champion's text -> totals of both


@dataclass(frozen=True)
class Decision:
    """outcome: promoted | kept (the champion stays) | champion (it is already) | dry run.

    champion: who was champion before. judged: both models' totals, where there were two.
    """

    outcome: str
    version: int | None
    champion: int | None
    verdict: Verdict
    judged: Totals | None = None

    def to_json(self) -> dict[str, Any]:
        """For a night's summary."""
        return {"outcome": self.outcome, "version": self.version, "champion": self.champion,
                **asdict(self.verdict)}  # fmt: skip


def promote(
    registry: Registry,
    warehouse: Warehouse,
    training: Submission,
    judge: Judge,
    how: Promote,
    *,
    method: str,
    measured: bool,
    dry_run: bool = False,
    force: str | None = None,
) -> Decision:
    """Let the gate decide. measured: propensities are the warehouse's, with diagnostics."""
    with contextlib.nullcontext() if dry_run else queue_if_unavailable(warehouse, training):
        if not dry_run:
            sync(registry, warehouse)  # what waits from earlier nights goes first
        champion = registry.holder(CHAMPION)
        known = champion.version if champion else None
        if champion and champion.tags.get("ulr.fingerprint") == training.fingerprint:
            return Decision("champion", known, known, _promoted_before(champion))
        text = registry.model_text(f"models:/{registry.name}/{known}") if champion else ""
        apart = incomparable(text, training.model) if champion else ""
        judged = judge(text) if champion and not apart else None
        lead = _lead(judged, method, how.metric) if judged else None
        verdict = decide(
            metric=how.metric,
            lead=lead,
            sample_size=training.metrics.get(SAMPLE_SIZE),
            min_sample_size=how.min_effective_sample_size,
            findings=_findings(warehouse) if measured else [],
            block=how.diagnostics,
            apart=apart,
        )
        sent = registry.find(training.fingerprint)
        verdict = _after_rollback(sent, _not_older(training, champion, verdict))
        if force:
            verdict = Verdict(True, [f"forced: {force}", *verdict.reasons], verdict.against)
        if dry_run:
            return Decision("dry run", None, known, verdict, judged)
        version = sent or registry.send(training)
        registry.give(CHALLENGER, version.version)
        outcome = "promoted" if verdict.passed else "kept"
        _write_down(registry, version, outcome, verdict, lead=lead, champion=known)
        if verdict.passed:
            registry.give(CHAMPION, version.version)
        return Decision(outcome, version.version, known, verdict, judged)


def roll_back(registry: Registry, reason: str) -> tuple[int, int]:
    """Give the alias back to the champion before this one; returns (from, to)."""
    champion = registry.holder(CHAMPION)
    if champion is None:
        raise UserError(f"{registry.name} has no champion; there is nothing to roll back")
    before = champion.tags.get(PREVIOUS)
    if not before:
        raise UserError(
            f"version {champion.version} of {registry.name} is the first champion; there is no "
            "earlier one to roll back to"
        )
    registry.note(champion, {ROLLED_BACK: reason})
    registry.give(CHAMPION, int(before))
    return champion.version, int(before)


def _promoted_before(champion: Registered) -> Verdict:
    """The same night again: what was said when it was promoted still holds."""
    before = champion.tags.get("ulr.reasons")
    said = [f"when it was promoted: {before}"] if before else []
    return Verdict(True, ["it is the champion already", *said], [])


def incomparable(champion: str, challenger: str) -> str:
    """Why two models cannot score the same rows: then only a person can choose between them."""
    difference = feature_difference(champion, challenger)
    return f"it cannot be compared with the champion: {difference}" if difference else ""


def _lead(judged: Totals, method: str, metric: str) -> Estimate:
    found = metric_values(judged, method, CHAMPION)
    if metric not in found:
        raise UserError(
            f"promote.metric = {metric!r} was not measured; there is {', '.join(sorted(found))}"
        )
    return found[metric]


def _not_older(training: Submission, champion: Registered | None, verdict: Verdict) -> Verdict:
    """A past date that is run again must not replace what was learned since."""
    ends = [t.get("ulr.window", "").rpartition("..")[2] for t in
            (training.tags, champion.tags if champion else {})]  # fmt: skip
    if not all(ends) or ends[0] >= ends[1] or "unknown" in ends:
        return verdict
    return with_objection(verdict, f"its window ends on {ends[0]}, the champion's on {ends[1]}")


def _after_rollback(version: Registered | None, verdict: Verdict) -> Verdict:
    why = version.tags.get(ROLLED_BACK) if version else None
    if why is None:
        return verdict
    return with_objection(
        verdict, f"it was rolled back: {why}; --force REASON promotes it all the same"
    )


def with_objection(verdict: Verdict, message: str) -> Verdict:
    """Return the verdict with one more reason to refuse."""
    return Verdict(False, [*verdict.reasons, message], [*verdict.against, message])


def _write_down(
    registry: Registry,
    version: Registered,
    outcome: str,
    verdict: Verdict,
    *,
    lead: Estimate | None,
    champion: int | None,
) -> None:
    tags = {"ulr.verdict": outcome, "ulr.reasons": "; ".join(verdict.reasons)}
    if verdict.passed and champion is not None:
        tags[PREVIOUS] = str(champion)
    names = {"value": "lead", "lower": "lead_lower", "upper": "lead_upper", "p_value": "lead_p"}
    metrics = {shown: getattr(lead, name) for name, shown in names.items()} if lead else {}
    registry.note(version, tags, metrics)


def _findings(warehouse: Warehouse) -> list[dict]:
    """What the diagnostics of the published propensities said."""
    if warehouse.current("diagnostics") is None:
        return []
    return warehouse.read("diagnostics").to_pylist()
