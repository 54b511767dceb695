"""What a page is made from: plain values, kept as JSON because the tables are replaced every night.

The same facts give the same page, byte for byte, for as long as they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

Row = dict[str, Any]
T = TypeVar("T")
NIGHT, RERUN, COMPARE = "night", "rerun", "compare"


@dataclass(frozen=True)
class Facts:
    """One run. A part that is not there is empty, and `missing` may say why, by the part's name.

    kind           night | rerun | compare
    window         the dates that it is about;  judged  those of them that it was judged by
    methods        what was trained, the one to look at first before the others
    metric         the one that decides
    stages         of a night: stage, status, seconds, words
    verdict        of a night: outcome, version, champion, passed, reasons, against
    metrics        rows of the metrics table, all traffic only
    curve, joint, diagnostics   rows of the propensity tables;  truth  rows of the simulator's
    weights        by method: position, name, value
    trainings      by method: trees, validation by round, t_plus, t_minus, failures
    variants       by model: the settings in which it is not like the first, beside its method
    days           by date: what was counted;  quarantine  some rows of every reason
    """

    kind: str
    name: str
    window: list[str] = field(default_factory=list)
    judged: str = ""
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

    def to_json(self) -> dict[str, Any]:
        """To keep."""
        return asdict(self)


def read_facts(content: Mapping[str, Any]) -> Facts:
    """What `to_json` gave; what a later version has added is left out."""
    known = {f.name for f in fields(Facts)}
    return Facts(**{name: value for name, value in content.items() if name in known})


def report_name(facts: Facts) -> str:
    """What the run is called on the command line, and its files in the warehouse."""
    return facts.name if facts.kind == NIGHT else f"{facts.kind}-{facts.name}"


class Missing(Exception):
    """A section has nothing to show; the words say why, and what would give it something."""


def part(facts: Facts, name: str, what: str) -> Any:
    """A part of the facts, or Missing with the reason that is known."""
    found = getattr(facts, name)
    if not found:
        raise Missing(facts.missing.get(name) or f"This run has no {what}.")
    return found


def by_method(facts: Facts, found: Mapping[str, T]) -> dict[str, T]:
    """In the order of the methods, the one to look at first before the others.

    A part that is kept by method comes back in the order of its keys.
    """
    return {name: found[name] for name in (*facts.methods, *found) if name in found}


def segments_of(rows: list[Row]) -> list[str | None]:
    """All traffic first, then the segments in their order."""
    return list(dict.fromkeys([None, *(row["segment"] for row in rows)]))


def segment_name(segment: str | None) -> str:
    """As it is called on the page."""
    return "all traffic" if segment is None else segment
