"""Estimates as tables for the warehouse and as JSON for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ulr.propensity.browsing import BrowsingFit
from ulr.propensity.curve import Curve
from ulr.propensity.diagnostics import Finding
from ulr.propensity.joint import PairEstimate
from ulr.warehouse.schema import diagnostics_schema, joint_propensities_schema, propensities_schema


@dataclass(frozen=True)
class SegmentResult:
    """All that is estimated for one segment, or for all traffic (segment None)."""

    segment: str | None
    curve: Curve
    pairs: list[PairEstimate]
    browsing: BrowsingFit
    fared: list[BrowsingFit]
    findings: list[Finding]


def curve_table(results: Sequence[SegmentResult]) -> pa.Table:
    """Rows of `propensities_schema`."""
    rows = [
        _curve_row(result, i) for result in results for i in range(result.curve.positions)
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=propensities_schema)


def _curve_row(result: SegmentResult, i: int) -> dict[str, Any]:
    curve = result.curve
    lower, upper = curve.interval()
    return {
        "segment": result.segment,
        "position": i + 1,
        "theta": _number(curve.theta[i]),
        "standard_error": _number(curve.standard_error[i]),
        "lower": _number(lower[i]),
        "upper": _number(upper[i]),
        "support": int(curve.support[i]),
        "estimator": curve.estimator,
        "source": curve.source[i],
        "note": curve.note[i],
        "alpha": None if curve.alpha is None else _number(curve.alpha[i]),
        "beta": None if curve.beta is None else _number(curve.beta[i]),
    }


def joint_table(results: Sequence[SegmentResult]) -> pa.Table:
    """Rows of `joint_propensities_schema`."""
    rows = []
    for result in results:
        for pair in result.pairs:
            lower, upper = pair.interval()
            rows.append(
                {
                    "segment": result.segment,
                    "k": pair.k,
                    "l": pair.l,
                    "psi": _number(pair.psi),
                    "standard_error": _number(pair.standard_error),
                    "lower": _number(lower),
                    "upper": _number(upper),
                    "support": pair.support,
                    "browsing": result.browsing.name,
                    "source": pair.source,
                    "note": pair.note,
                }
            )
    return pa.Table.from_pylist(rows, schema=joint_propensities_schema)


def findings_table(results: Sequence[SegmentResult]) -> pa.Table:
    """Rows of `diagnostics_schema`."""
    rows = [{"segment": r.segment} | _plain(asdict(f)) for r in results for f in r.findings]
    return pa.Table.from_pylist(rows, schema=diagnostics_schema)


def as_json(results: Sequence[SegmentResult]) -> dict[str, Any]:
    """Everything for people; `theta` at the top is what the estimator `given` reads."""
    pooled = results[0]
    return {
        "theta": [_number(t) for t in pooled.curve.theta],
        "estimator": pooled.curve.estimator,
        "segments": [_segment_json(r) for r in results],
    }


def _segment_json(result: SegmentResult) -> dict[str, Any]:
    browsing = [
        {
            "model": fit.name,
            "log_likelihood": _number(fit.log_likelihood),
            "bic": _number(fit.bic),
            "parameters": fit.parameters,
        }
        for fit in result.fared
    ]
    return {
        "segment": result.segment,
        "curve": _without_segment(curve_table([result])),
        "joint": _without_segment(joint_table([result])),
        "browsing": {"chosen": result.browsing.name, "note": result.browsing.note, "all": browsing},
        "diagnostics": _without_segment(findings_table([result])),
    }


def summary_lines(results: Sequence[SegmentResult]) -> list[str]:
    """What a person should read first: refusals and warnings, then the sums."""
    lines = []
    for result in results:
        name = f"segment {result.segment}" if result.segment is not None else "all traffic"
        sources = {s: result.curve.source.count(s) for s in dict.fromkeys(result.curve.source)}
        counted = ", ".join(f"{n} {s}" for s, n in sources.items())
        lines.append(f"{name}: theta by {result.curve.estimator}, {counted} positions")
        lines += [
            f"  position {i + 1} {source}: {result.curve.note[i]}"
            for i, source in enumerate(result.curve.source)
            if source in ("insufficient", "pooled")
        ]
        pairs = [p.source for p in result.pairs]
        counted = ", ".join(f"{pairs.count(s)} {s}" for s in dict.fromkeys(pairs))
        lines.append(
            f"  psi: {counted or 'none'}; browsing {result.browsing.name}" + _fared(result)
        )
        lines += [f"  {f.verdict}: {f.message}" for f in result.findings if f.verdict != "ok"]
        lines += [
            f"  {f.message}" for f in result.findings if f.check == "joint" and f.subject == "all"
        ]
    return lines


def _fared(result: SegmentResult) -> str:
    if not result.fared:
        return f" ({result.browsing.note})" if result.browsing.note else ""
    best = min(f.bic for f in result.fared)
    others = [f"{f.name} +{f.bic - best:.0f}" for f in result.fared if f.bic > best]
    return f" (BIC of the others: {', '.join(others)})" if others else ""


def _number(value: float) -> float | None:
    """NaN has no place in a table or in JSON."""
    return float(value) if np.isfinite(value) else None


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {k: _number(v) if isinstance(v, float) else v for k, v in row.items()}


def _without_segment(table: pa.Table) -> list[dict[str, Any]]:
    return table.drop_columns(["segment"]).to_pylist()
