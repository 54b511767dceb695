"""The table of a campaign, the list of its failures, and both as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.bench.faults.campaign import FAILURES, Outcome, Verdict

_COLUMNS = ("kind", "runs", *(v.value for v in Verdict if v is not Verdict.SKIPPED), "seconds")


def table(outcomes: Sequence[Outcome]) -> str:
    """Return a Markdown table with one row a kind, and the totals."""
    kinds = list(dict.fromkeys(outcome.kind for outcome in outcomes))
    rows = [_row(kind, [o for o in outcomes if o.kind == kind]) for kind in kinds]
    rows.append(_row("all", outcomes))
    cells = [list(map(str, row.values())) for row in [{name: name for name in _COLUMNS}, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [" | ".join(map(str.ljust, row, widths)).join(("| ", " |")) for row in cells]
    lines.insert(1, "|".join("-" * (width + 2) for width in widths).join("||"))
    return "\n".join(lines)


def notes(outcomes: Sequence[Outcome], seed: int) -> list[str]:
    """Return a line for each fault that failed, with the command that repeats it."""
    return [
        f"{o.result.verdict}: {o.kind}/{o.name}: {o.result.detail}"
        + (f" (--only {o.kind} --fault {o.name} --seed {seed})" if failed(o) else "")
        for o in outcomes
        if failed(o) or o.result.verdict is Verdict.SKIPPED
    ]


def failed(outcome: Outcome) -> bool:
    """Return whether something was lost, hung, executed or crashed."""
    return outcome.result.verdict in FAILURES


def to_json(outcomes: Sequence[Outcome], seed: int) -> dict[str, Any]:
    """Return the campaign for programs."""
    faults = [
        {"kind": o.kind, "name": o.name, "verdict": str(o.result.verdict),
         "detail": o.result.detail, "seconds": round(o.seconds, 2)}
        for o in outcomes
    ]  # fmt: skip
    kinds = list(dict.fromkeys(outcome.kind for outcome in outcomes))
    rows = [_row(kind, [o for o in outcomes if o.kind == kind]) for kind in kinds]
    return {"seed": seed, "kinds": rows, "faults": faults}


def _row(kind: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    verdicts = [outcome.result.verdict for outcome in outcomes]
    counts = {v.value: verdicts.count(v) for v in Verdict if v is not Verdict.SKIPPED}
    seconds = round(sum(outcome.seconds for outcome in outcomes))
    return {"kind": kind, "runs": sum(counts.values()), **counts, "seconds": seconds}
