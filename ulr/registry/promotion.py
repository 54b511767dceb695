"""Promote a challenger to champion if it passes the gate, and roll a champion back.

The verdict is written on the version before the alias moves. A run that was killed in between is
completed by the next one, since every step can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from ulr.config.settings import Promote
from ulr.errors import UserError
from ulr.evaluation.totals import Estimate, Totals, metric_values
from ulr.models.booster import feature_difference
from ulr.registry import gate, tags
from ulr.registry.anchor import find_anchor, last_day, window_days
from ulr.registry.client import ANCHOR, CHALLENGER, CHAMPION, RegisteredVersion, Registry
from ulr.registry.gate import Check, Verdict
from ulr.registry.lock import registry_lock
from ulr.registry.noninferiority import compare, describe
from ulr.registry.outbox import queue_if_unavailable, sync
from ulr.registry.stored_model import Warn, ignore
from ulr.registry.submission import CLICKS, QUERIES, Submission
from ulr.warehouse.tables import Warehouse

# From the rivals' texts by name, CHAMPION and ANCHOR, to the totals of all models.
EvaluateAll = Callable[[Mapping[str, str]], Totals]


@dataclass(frozen=True)
class Decision:
    """outcome: promoted | kept (the champion stays) | champion (it is already) | dry run.

    champion: version of the champion before. totals: of all models that were compared. leads:
    challenger - rival in promote.metric, by the rival's name.
    """

    outcome: str
    version: int | None
    champion: int | None
    verdict: Verdict
    totals: Totals | None = None
    leads: Mapping[str, Estimate] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the decision without its totals."""
        return {"outcome": self.outcome, "version": self.version, "champion": self.champion,
                **asdict(self.verdict)}  # fmt: skip


def promote(
    registry: Registry,
    warehouse: Warehouse,
    submission: Submission,
    evaluate: EvaluateAll,
    settings: Promote,
    *,
    published_propensities: bool,
    dry_run: bool = False,
    force: str | None = None,
    warn: Warn = ignore,
) -> Decision:
    """Register the model as challenger, and make it champion if it passes the gate.

    published_propensities: the model uses those of the warehouse, so their diagnostics count.
    force: a reason to promote it whatever the gate decides. warn: receives lines for the user.
    """
    findings = _findings(warehouse) if published_propensities else []
    assess = partial(
        _assess, registry, submission, evaluate, settings,
        findings=findings, force=force, warn=warn,
    )  # fmt: skip
    if dry_run:
        return assess()
    with queue_if_unavailable(warehouse, submission):
        # First, so that versions are in the order of the trainings.
        for message in sync(registry, warehouse).damaged:
            warn(message)
        while True:
            decision = assess()  # may take long, so without the lock
            if decision.outcome == "champion":
                return decision
            with registry_lock(warehouse):
                champion = registry.version_with_alias(CHAMPION)
                if decision.champion == (champion and champion.version):
                    return _carry_out(registry, submission, decision)
                # Another process has changed the champion: compare with the new one.


def _assess(
    registry: Registry,
    submission: Submission,
    evaluate: EvaluateAll,
    settings: Promote,
    *,
    findings: list[dict[str, Any]],
    force: str | None,
    warn: Warn,
) -> Decision:
    """Run every check; change nothing."""
    champion = registry.version_with_alias(CHAMPION)
    if champion and champion.tags.get(tags.FINGERPRINT) == submission.fingerprint:
        return Decision("champion", champion.version, champion.version, _was_promoted(champion))
    comparisons, totals, leads = [Check(True, "there is no champion yet")], None, {}
    if champion:
        rivals = _rivals(registry, submission, champion, settings, warn)
        if difference := incomparable(rivals.texts[CHAMPION], submission.model):
            comparisons = [Check(False, difference)]
        else:
            totals = evaluate(rivals.texts)
            method = submission.tags[tags.METHOD]
            leads = {name: _lead(totals, method, name, settings.metric) for name in rivals.texts}
            comparisons = _compare(rivals, totals, leads, settings, window_days(submission.tags))
    earlier = registry.find(submission.fingerprint)
    checks = [
        *comparisons,
        gate.check_size("clicks", submission.metrics.get(CLICKS), settings.min_effective_clicks),
        gate.check_size("queries", submission.metrics.get(QUERIES), settings.min_effective_queries),
        *gate.check_diagnostics(findings, settings.diagnostics),
        *(Check(False, message) for message in _objections(submission, champion, earlier)),
    ]
    number = champion.version if champion else None
    return Decision("dry run", None, number, gate.decide(checks, force=force), totals, leads)


@dataclass(frozen=True)
class _Rivals:
    """texts: models by name; labels: the rivals in words. note: about the anchor, or empty.

    The anchor is among them only if it is not the champion.
    """

    texts: Mapping[str, str]
    labels: Mapping[str, str]
    note: str = ""


def _rivals(
    registry: Registry,
    submission: Submission,
    champion: RegisteredVersion,
    settings: Promote,
    warn: Warn,
) -> _Rivals:
    """Return the champion and the anchor."""

    def text_of(version: RegisteredVersion) -> str:
        return registry.model_text(f"models:/{registry.name}/{version.version}", warn)

    texts, labels = {CHAMPION: text_of(champion)}, {CHAMPION: "the champion"}
    anchor = find_anchor(registry, champion, last_day(submission.tags), settings.anchor_days)
    if anchor.version == champion.version:
        return _Rivals(texts, labels)
    label = f"version {anchor.version}, the champion of {last_day(anchor.tags)}"
    text = text_of(anchor)
    if difference := feature_difference(text, submission.model):
        return _Rivals(texts, labels, f"not compared with {label}: {difference}")
    return _Rivals(texts | {ANCHOR: text}, labels | {ANCHOR: label})


def _compare(
    rivals: _Rivals,
    totals: Totals,
    leads: Mapping[str, Estimate],
    settings: Promote,
    days: int | None,
) -> list[Check]:
    """Return a check for each rival. Without another anchor the champion is the anchor."""
    checks, anchor = [], ANCHOR if ANCHOR in leads else CHAMPION
    for name, lead in leads.items():
        value = metric_values(totals, name)[settings.metric].value
        result = compare(settings.metric, lead, value, settings.margin)
        message = describe(settings.metric, result, rivals.labels[name], days)
        checks.append(
            gate.check_comparison(
                result, message, anchor=name == anchor, undecided=settings.undecided
            )
        )
    return [*checks, *([Check(True, rivals.note)] if rivals.note else [])]


def _carry_out(registry: Registry, submission: Submission, decision: Decision) -> Decision:
    verdict = decision.verdict
    outcome = "promoted" if verdict.passed else "kept"
    written = {tags.VERDICT: outcome, tags.REASONS: "; ".join(verdict.reasons)}
    if verdict.passed and decision.champion is not None:
        written[tags.PREVIOUS_CHAMPION] = str(decision.champion)
    metrics: dict[str, float] = {}
    for name, lead in decision.leads.items():
        metrics |= {f"lead_{name}": lead.value, f"lead_{name}_lower": lead.lower,
                    f"lead_{name}_upper": lead.upper, f"lead_{name}_p": lead.p_value}  # fmt: skip
    # Verdict and model in the same requests.
    version = registry.register(
        replace(submission, tags=submission.tags | written, metrics=submission.metrics | metrics)
    )
    if not version.new:
        registry.tag_version(version, written, metrics)
    registry.set_alias(CHALLENGER, version.version)
    if verdict.passed:
        registry.set_alias(CHAMPION, version.version)
    return replace(decision, outcome=outcome, version=version.version)


def roll_back(registry: Registry, warehouse: Warehouse, reason: str) -> tuple[int, int]:
    """Give the alias back to the previous champion; return (from, to)."""
    with registry_lock(warehouse):
        champion = registry.version_with_alias(CHAMPION)
        if champion is None:
            raise UserError(f"{registry.name} has no champion; there is nothing to roll back")
        previous = champion.tags.get(tags.PREVIOUS_CHAMPION)
        if not previous:
            raise UserError(
                f"version {champion.version} of {registry.name} is the first champion; there is no "
                "earlier one to roll back to"
            )
        registry.tag_version(champion, {tags.ROLLED_BACK: reason})
        registry.set_alias(CHAMPION, int(previous))
        return champion.version, int(previous)


def incomparable(champion: str, challenger: str) -> str:
    """Say why two models (text) cannot score the same rows; "" if they can."""
    difference = feature_difference(champion, challenger)
    return f"it cannot be compared with the champion: {difference}" if difference else ""


def _was_promoted(champion: RegisteredVersion) -> Verdict:
    before = champion.tags.get(tags.REASONS)
    reasons = [f"when it was promoted: {before}"] if before else []
    return Verdict(True, ["it is the champion already", *reasons], [])


def _lead(totals: Totals, method: str, rival: str, metric: str) -> Estimate:
    leads = metric_values(totals, method, rival)
    if metric not in leads:
        raise UserError(
            f"promote.metric = {metric!r} was not computed; expected one of "
            f"{', '.join(sorted(leads))}"
        )
    return leads[metric]


def _findings(warehouse: Warehouse) -> list[dict[str, Any]]:
    if warehouse.current("diagnostics") is None:
        return []
    return warehouse.read("diagnostics").to_pylist()


def _objections(
    submission: Submission, champion: RegisteredVersion | None, earlier: RegisteredVersion | None
) -> Iterator[str]:
    """Yield an objection to a past date that was run again, and to a model that was rolled back."""
    day, champion_day = last_day(submission.tags), last_day(champion.tags) if champion else ""
    if day != "unknown" and champion_day != "unknown" and day < champion_day:
        yield f"its window ends on {day}, before the champion's ({champion_day})"
    if earlier and tags.ROLLED_BACK in earlier.tags:
        yield (f"it was rolled back: {earlier.tags[tags.ROLLED_BACK]}; use --force REASON to "
               "promote it")  # fmt: skip
