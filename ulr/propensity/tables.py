"""Estimates as tables of the warehouse, as JSON and as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from ulr.propensity.choice import CHECK as CHOICE
from ulr.propensity.click_model import ClickFindings
from ulr.propensity.covariance import affine_covariance, log_theta_covariance
from ulr.propensity.curve_checks import FIRST_POSITION
from ulr.propensity.examination import CASCADE
from ulr.propensity.findings import Finding
from ulr.propensity.kappa import Kappa
from ulr.propensity.segments import SegmentResult
from ulr.propensity.shrinkage import own_share
from ulr.warehouse.schema import diagnostics_schema, joint_propensities_schema, propensities_schema

Row = dict[str, Any]


def curve_table(results: Sequence[SegmentResult]) -> pa.Table:
    """Return rows of `propensities_schema`."""
    rows = [row for result in results for row in _curve_rows(result)]
    curves = [result.curve for result in results]
    _add_lists(rows, "covariance", log_theta_covariance(curves))
    affine = affine_covariance(curves)
    if affine is not None:
        _add_lists(rows, "beta_covariance", _beta_rows(affine, curves[0].positions))
    return _table(rows, propensities_schema)


def _add_lists(rows: list[Row], name: str, values: np.ndarray) -> None:
    """Add a column with the rows of a matrix; a row of zeros becomes null."""
    for row, own in zip(rows, values, strict=True):
        row[name] = own.tolist() if own.any() else None


def _beta_rows(affine: np.ndarray, positions: int) -> np.ndarray:
    """Return the covariances of beta with log theta of all rows, then with beta of all rows."""
    curves = len(affine) // (2 * positions)
    parts = affine.reshape(curves, 2, positions, curves, 2, positions)
    return parts[:, 1].transpose(0, 1, 3, 2, 4).reshape(curves * positions, -1)


def _curve_rows(result: SegmentResult) -> Iterable[Row]:
    curve = result.curve
    lower, upper = curve.interval()
    for i in range(curve.positions):
        yield {
            "segment": result.segment,
            "position": i + 1,
            "theta": curve.theta[i],
            "standard_error": curve.standard_error[i],
            "lower": lower[i],
            "upper": upper[i],
            "support": int(curve.support[i]),
            "estimator": curve.estimator,
            "source": curve.source[i],
            "note": curve.note[i],
            "alpha": None if curve.alpha is None else curve.alpha[i],
            "beta": None if curve.beta is None else curve.beta[i],
            "theta_1": result.browsing.theta_1,
            **_click_model(result.clicks),
        }


def _click_model(clicks: ClickFindings) -> Row:
    """Return the columns of the click model; phi and beta only if users stop after clicks."""
    stops = clicks.stopping if clicks.click_model == CASCADE else None
    return {
        "stop_probability": None if stops is None else stops.phi,
        "continue_probability": None if stops is None else stops.beta,
        "click_model": clicks.click_model or None,
    }


def joint_table(results: Sequence[SegmentResult]) -> pa.Table:
    """Return rows of `joint_propensities_schema`."""
    rows = [
        {
            "segment": result.segment,
            "k": pair.k,
            "l": pair.l,
            "psi": pair.psi,
            "standard_error": pair.standard_error,
            "lower": pair.interval()[0],
            "upper": pair.interval()[1],
            "support": pair.support,
            "browsing": result.browsing.name,
            "source": pair.source,
            "note": pair.note,
            **_kappa(result.clicks.kappa, pair.k, pair.l),
            "covariance": own.tolist() if own.any() else None,
        }
        for result in results
        for pair, own in zip(result.pairs, result.pair_covariance, strict=True)
    ]
    return _table(rows, joint_propensities_schema)


def _kappa(kappa: Kappa | None, k: int, v: int) -> Row:
    if kappa is None:
        return {"kappa": None, "kappa_standard_error": None}
    at = k - 1, v - 1
    return {"kappa": kappa.value[at], "kappa_standard_error": kappa.standard_error[at]}


def findings_table(results: Sequence[SegmentResult]) -> pa.Table:
    """Return rows of `diagnostics_schema`."""
    rows = [{"segment": r.segment} | asdict(f) for r in results for f in r.findings]
    return _table(rows, diagnostics_schema)


def _table(rows: Iterable[Row], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([_nulls(row) for row in rows], schema=schema)


def _nulls(row: Row) -> Row:
    """Return the row with null instead of NaN and infinity, which JSON cannot express."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value
        for name, value in row.items()
    }


def as_json(results: Sequence[SegmentResult]) -> dict[str, Any]:
    """Return all results; the estimator `given` can read `theta` from this object."""
    segments = [_segment_json(result) for result in results]
    return {
        "theta": [row["theta"] for row in segments[0]["curve"]],
        "estimator": results[0].curve.estimator,
        "choice": next((f.message for f in results[0].findings if f.check == CHOICE), None),
        "segments": segments,
    }


def _segment_json(result: SegmentResult) -> dict[str, Any]:
    fits = [
        _nulls(
            {
                "model": fit.name,
                "log_likelihood": fit.log_likelihood,
                "bic": fit.bic,
                "parameters": fit.parameters,
            }
        )
        for fit in result.fits
    ]
    stopping = result.clicks.stopping
    return {
        "segment": result.segment,
        "click_model": result.clicks.click_model or None,
        "stopping": None if stopping is None else _nulls(asdict(stopping)),
        "curve": _records(curve_table([result])),
        "joint": _records(joint_table([result])),
        "browsing": {"chosen": result.browsing.name, "note": result.browsing.note, "all": fits},
        "diagnostics": _records(findings_table([result])),
    }


def _records(table: pa.Table) -> list[Row]:
    return without_covariances(table).drop_columns(["segment"]).to_pylist()


def without_covariances(table: pa.Table) -> pa.Table:
    """Return the table without the columns that hold a row of a matrix."""
    lists = [name for name in table.column_names if name.endswith("covariance")]
    return table.drop_columns(lists)


def summary_lines(results: Sequence[SegmentResult]) -> list[str]:
    """Return a summary: per segment the counts by source, missing positions and warnings."""
    lines = []
    for result in results:
        curve = result.curve
        name = "all traffic" if result.segment is None else f"segment {result.segment}"
        positions = _by_source(curve.source, "positions")
        lines.append(f"{name}: theta by {curve.estimator}, {positions}")
        lines += [f"  {f.message}" for f in result.findings if f.check == CHOICE]
        lines += [
            f"  position {i + 1}, {source}: {curve.note[i]}"
            for i, source in enumerate(curve.source)
            if source in ("insufficient", "pooled")
        ]
        if result.segment is not None and curve.own_weight is not None:
            share = own_share(curve.own_weight)[1:]
            lines.append(
                f"  shrunk towards all traffic: the segment's own data has {np.min(share):.0%} to "
                f"{np.max(share):.0%} of the weight"
            )
        pairs = _by_source([pair.source for pair in result.pairs], "pairs")
        lines.append(f"  psi: {pairs}; browsing model {result.browsing.name}{_bic(result)}")
        lines += [f"  {f.verdict}: {f.message}" for f in result.findings if _is_alarm(f)]
        lines += [f"  {f.message}" for f in result.findings if _is_summary(f)]
    return lines


def _is_alarm(finding: Finding) -> bool:
    return finding.verdict != "ok" and finding.check != CHOICE


def _is_summary(finding: Finding) -> bool:
    joint = finding.check == "joint" and finding.subject in ("all", FIRST_POSITION)
    return joint or finding.check == "depth"


def _by_source(sources: Sequence[str], noun: str) -> str:
    """Return text such as `10 positions (9 estimated, 1 insufficient)`."""
    counts = ", ".join(f"{n} {source}" for source, n in Counter(sources).items())
    return f"{len(sources)} {noun}" + (f" ({counts})" if counts else "")


def _bic(result: SegmentResult) -> str:
    if not result.fits:
        return f" ({result.browsing.note})" if result.browsing.note else ""
    chosen = result.browsing
    others = [
        f"{fit.name} {fit.bic - chosen.bic:+,.0f}" for fit in result.fits if fit.name != chosen.name
    ]
    return f" (BIC of the others: {', '.join(others)})" if others else ""
