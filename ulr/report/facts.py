"""The facts of a run: everything its page shows, as plain values that are stored as JSON.

The tables they come from are replaced by the next run. The same facts give the same page, byte for
byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

Row = dict[str, Any]
T = TypeVar("T")
NIGHT, RERUN, COMPARE = "night", "rerun", "compare"


@dataclass(frozen=True)
class Facts:
    """One run. A part without data is empty; `missing` may have the reason, by name of the part.

    kind           night | rerun | compare
    window         dates of the log;  evaluated_on  the dates D1..D2 of the held-out queries
    methods        trained methods, the most important one first
    metric         the metric that decides
    stages         of a night: stage, status, seconds, message
    verdict        of a night: outcome, version, champion, passed, reasons, against
    metrics        rows of the table `metrics`, over all traffic
    curve, joint, diagnostics   rows of the propensity tables;  truth  of the simulator's
    weights        by method: position, name, value
    trainings      by method: trees, validation by iteration, t_plus, t_minus, failures
    days           by date: counts;  quarantine  example rows of every reason
    changed        names of the settings that differ from the defaults
    variants       by model: settings, other than the method, that differ from the first model's
    """

    kind: str
    name: str
    window: list[str] = field(default_factory=list)
    evaluated_on: str = ""
    methods: list[str] = field(default_factory=list)
    metric: str = ""
    stages: list[Row] = field(default_factory=list)
    verdict: Row | None = None
    metrics: list[Row] = field(default_factory=list)
    curve: list[Row] = field(default_factory=list)
    joint: list[Row] = field(default_factory=list)
    diagnostics: list[Row] = field(default_factory=list)
    truth: list[Row] = field(default_factory=list)
    weights: dict[str, list[Row]] = field(default_factory=dict)
    trainings: dict[str, Row] = field(default_factory=dict)
    days: list[Row] = field(default_factory=list)
    quarantine: list[Row] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    variants: dict[str, dict[str, str]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def report_name(self) -> str:
        """The name of the run on the command line, and of its files in the warehouse."""
        return self.name if self.kind == NIGHT else f"{self.kind}-{self.name}"

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON values."""
        return asdict(self)


def read_facts(content: Mapping[str, Any]) -> Facts:
    """Return the facts that `to_json` wrote; parts that a later version added are ignored."""
    names = {f.name for f in fields(Facts)}
    return Facts(**{name: value for name, value in content.items() if name in names})


class Missing(Exception):
    """A section has no data; the message says why."""


def require(facts: Facts, part: str, description: str) -> Any:
    """Return a part of the facts; raise Missing with the reason if it is empty."""
    value = getattr(facts, part)
    if not value:
        raise Missing(facts.missing.get(part) or f"This run has no {description}.")
    return value


def by_method(facts: Facts, values: Mapping[str, T]) -> dict[str, T]:
    """Return the values in the order of the methods; JSON files have sorted keys."""
    return {name: values[name] for name in (*facts.methods, *values) if name in values}


def segments_of(rows: Iterable[Row]) -> list[str | None]:
    """Return the segments of the rows: all traffic (None), then the others in their order."""
    return list(dict.fromkeys([None, *(row["segment"] for row in rows)]))


def segment_name(segment: str | None) -> str:
    """Return the name of a segment on the page."""
    return "all traffic" if segment is None else segment
