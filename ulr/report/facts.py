"""The facts of a run: all data of its report page, as plain values that are stored as JSON.

They are stored because the next run replaces the tables from which they were read. Rendering is
deterministic: equal facts give byte-identical pages.
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
    """The data of one run. A field without data is empty; `missing` may contain the reason.

    kind           night | rerun | compare
    window         dates of the click log
    evaluated_on   dates of the held-out queries, as D1..D2
    methods        trained methods, the most important one first
    metric         the metric by which models are ranked and promoted
    stages         of a nightly run: stage, status, seconds, message
    verdict        of a nightly run: outcome, version, champion, passed, reasons, against
    metrics        rows of the table `metrics`, over all traffic
    curve, joint, levels, diagnostics   rows of the propensity tables
    truth          rows of the simulator's table of true theta and psi
    weights        by method: position, name, value
    trainings      by method: trees, validation by iteration, t_plus, t_minus,
                   position_bias, failures, importance of the features
    days           counts by date
    quarantine     example rows of every quarantine reason
    changed        names of the settings that differ from the defaults
    variants       by model: settings, other than the method, that differ from the first model's
    missing        reason by field name
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
    levels: list[Row] = field(default_factory=list)
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
        """The name of the run on the command line and in its file names in the warehouse."""
        return self.name if self.kind == NIGHT else f"{self.kind}-{self.name}"

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON values."""
        return asdict(self)


def read_facts(content: Mapping[str, Any]) -> Facts:
    """Return the facts that `to_json` wrote; fields added by a later version are ignored."""
    names = {f.name for f in fields(Facts)}
    return Facts(**{name: value for name, value in content.items() if name in names})


class Missing(Exception):
    """The error of a section without data; the message is the reason."""


def require(facts: Facts, part: str, description: str) -> Any:
    """Return a field of the facts; raise Missing with the reason if it is empty."""
    value = getattr(facts, part)
    if not value:
        raise Missing(facts.missing.get(part) or f"This run has no {description}.")
    return value


def by_method(facts: Facts, values: Mapping[str, T]) -> dict[str, T]:
    """Return the values in the order of the methods, because JSON files store keys sorted."""
    return {name: values[name] for name in (*facts.methods, *values) if name in values}


def segments_of(rows: Iterable[Row]) -> list[str | None]:
    """Return the segments: all traffic (None), then those of the rows in order of appearance."""
    return list(dict.fromkeys([None, *(row["segment"] for row in rows)]))


def segment_name(segment: str | None) -> str:
    """Return the display name of a segment."""
    return "all traffic" if segment is None else segment
