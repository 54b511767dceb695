"""One row per night: what the page over all nights shows of its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ulr.report import metrics
from ulr.report.facts import NIGHT, Facts, Row
from ulr.report.format import known

POSITIONS = (2, 3, 5, 10, 20, 50)  # of theta; position 1 is 1
FAILED, UNREADABLE, PROMOTED, KEPT, CHAMPION = (
    "failed", "unreadable", "promoted", "kept", "champion"
)  # fmt: skip
PRODUCTION = "production"
Ends = list[float | None]  # value, lower and upper end


@dataclass(frozen=True)
class NightRow:
    """One night.

    outcome        promoted | kept | champion (the night was repeated) | failed | unreadable
    message        of the stage that failed
    version        of the night's model
    before, champion   versions of the champion before and after the night, if they are known
    metric         name of the metric in `values`
    values         of the champion after the night, and of production
    theta          of all traffic, by position
    pages, read, quarantined   of the night's own date: pages, rows of the log, rejected rows
    seconds        by stage that ran
    """

    date: str
    outcome: str
    message: str = ""
    version: int | None = None
    before: int | None = None
    champion: int | None = None
    metric: str = ""
    values: dict[str, Ends] = field(default_factory=dict)
    theta: dict[str, Ends] = field(default_factory=dict)
    pages: int | None = None
    read: int | None = None
    quarantined: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def promoted(self) -> bool:
        """Whether the night's model became champion, in this run of the night or an earlier one."""
        return self.outcome in (PROMOTED, CHAMPION)

    @property
    def failed(self) -> bool:
        """Whether the night has no result."""
        return self.outcome in (FAILED, UNREADABLE)

    @property
    def quarantine_fraction(self) -> float | None:
        """Quarantined rows, as a fraction of the rows read."""
        return self.quarantined / self.read if self.read and self.quarantined is not None else None

    def to_json(self) -> Row:
        """Return the row as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class History:
    """All nights, oldest first.

    pages: names of the reports that have a page; others: of re-runs and comparisons.
    """

    nights: list[NightRow]
    pages: frozenset[str] = frozenset()
    others: list[str] = field(default_factory=list)

    @property
    def metric(self) -> str:
        """The metric of the newest night that has one."""
        return next((night.metric for night in reversed(self.nights) if night.metric), "")


def read_row(content: Mapping[str, Any]) -> NightRow:
    """Return the row that `to_json` wrote; fields of a later version are ignored."""
    names = {f.name for f in fields(NightRow)}
    return NightRow(**{name: value for name, value in content.items() if name in names})


def row_of(facts: Facts, metric: str = "") -> NightRow:
    """Return the row of a night. metric: to take values of; by default the night's own."""
    metric = metric or facts.metric
    verdict, outcome = facts.verdict or {}, _outcome(facts)
    champion = verdict.get("champion") if outcome == KEPT else verdict.get("version")
    own = facts.methods[0] if facts.methods else ""
    in_charge = metrics.CHAMPION if outcome == KEPT else own
    day = next((day for day in facts.days if day["date"] == facts.name), {})
    bad = sum(number for name, number in day.items() if name.startswith("bad:"))
    return NightRow(
        date=facts.name,
        outcome=outcome,
        message=next((f"{s['stage']}: {s['message']}"
                      for s in facts.stages if s["status"] == "failed"), ""),
        version=verdict.get("version"),
        before=verdict.get("champion"),
        champion=champion if verdict else None,
        metric=metric,
        values=_values(facts, metric, {CHAMPION: in_charge if verdict else "",
                                       PRODUCTION: metrics.LOGGING}),
        theta=_theta(facts),
        pages=day.get("pages"),
        read=day.get("read"),
        quarantined=bad if day else None,
        seconds={s["stage"]: s["seconds"] for s in facts.stages if s["status"] != "not run"},
    )  # fmt: skip


def unreadable(date: str) -> NightRow:
    """Return the row of a night whose facts are damaged."""
    return NightRow(date, UNREADABLE, "the facts of this night are damaged")


def facts_of_summary(summary: Mapping[str, Any]) -> Facts:
    """Return what the summary of a night without a report has."""
    stages = list(summary.get("stages", []))
    details = next((s.get("details") for s in stages if s["stage"] == "promote"), None)
    return Facts(kind=NIGHT, name=str(summary.get("date", "")), stages=stages,
                 verdict=details or None)  # fmt: skip


def _outcome(facts: Facts) -> str:
    if any(stage["status"] == FAILED for stage in facts.stages) or not facts.verdict:
        return FAILED
    return str(facts.verdict["outcome"])


def _values(facts: Facts, metric: str, subjects: Mapping[str, str]) -> dict[str, Ends]:
    found = {name: metrics.values(facts, subject).get(metric) for name, subject in subjects.items()}
    return {name: _ends(row, "value") for name, row in found.items() if row}


def _theta(facts: Facts) -> dict[str, Ends]:
    curve = (row for row in facts.curve if row["segment"] is None and known(row["theta"]))
    return {str(row["position"]): _ends(row, "theta")
            for row in curve if row["position"] in POSITIONS}  # fmt: skip


def _ends(row: Row, value: str) -> Ends:
    """Return the value and its interval with six digits, which is more than the page shows."""
    ends = (row[name] for name in (value, "lower", "upper"))
    return [float(f"{end:.6g}") if known(end) else None for end in ends]
