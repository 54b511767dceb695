"""Propensities as a user has them, as an Examination."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ulr.errors import UserError
from ulr.ml.frames import to_table
from ulr.pairs.weights import NEEDS_NO_THETA
from ulr.propensity.browsing import psi_by_theta
from ulr.propensity.estimators import given_curve, theta_of_json
from ulr.propensity.examination import BySegment, Examination, given_examination, load_file

_EXPECTED = (
    "expected a list theta(1), theta(2), ..., a mapping of segments to such lists, a frame with "
    "the columns k, l, psi (theta where k = l) or position, theta, the path of a file, or the "
    "result of ulr.propensities"
)


def as_examination(propensities: Any) -> tuple[Examination, BySegment]:
    """Return the examination of all traffic and of each segment.

    A list of theta has psi(k, l) = theta_k theta_l, independent browsing; give psi with a frame.
    """
    if isinstance(propensities, Examination):
        return propensities, {}
    if hasattr(propensities, "examination"):
        pooled, by_segment = propensities.examination()
        return pooled, by_segment
    if isinstance(propensities, str | Path):
        return _of_file(str(propensities))
    if isinstance(propensities, Mapping) and not {"psi", "position"} & set(propensities):
        return _of_mapping(propensities)
    if isinstance(propensities, Sequence | np.ndarray):
        return _of_theta(propensities), {}
    return _of_frame(propensities)


def examination_for(
    method: str, propensities: Any, positions: int
) -> tuple[Examination, BySegment]:
    """Return the examination that a method is trained with.

    positions: the deepest shown; methods without theta need no propensities and get theta = 1.
    """
    if propensities is not None:
        return as_examination(propensities)
    if method not in NEEDS_NO_THETA:
        raise UserError(
            f"method {method} needs propensities; give theta by position, estimate it with "
            "ulr.propensities(pages), or use method='unbiased-lambdamart', which learns its biases"
        )
    return Examination(np.ones(positions), np.ones((positions, positions))), {}


def _of_file(path: str) -> tuple[Examination, BySegment]:
    if not path.endswith(".json"):
        return load_file(path)
    try:
        content = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"propensities: cannot read {path}: {error}") from None
    return _of_theta(theta_of_json(content, path)), {}


def _of_mapping(values: Mapping[Any, Any]) -> tuple[Examination, BySegment]:
    """Return the curves of a mapping: `theta` or None is all traffic, other keys are segments."""
    if values and all(isinstance(v, int | float) for v in values.values()):  # by position
        theta = [values.get(k) for k in range(1, len(values) + 1)]
        if None in theta:
            raise UserError("propensities by position: positions must run from 1 without a gap")
        return _of_theta(theta), {}
    curves = {name: _of_theta(theta) for name, theta in values.items()}
    pooled = curves.pop("theta", None) or curves.pop(None, None)
    if pooled is None and curves:
        depth = min(own.depth for own in curves.values())
        pooled = _of_theta(np.mean([own.theta[:depth] for own in curves.values()], axis=0))
    if pooled is None:
        raise UserError(f"propensities is an empty mapping; {_EXPECTED}")
    deep = {str(n): own.cut(pooled.depth) for n, own in curves.items() if own.depth >= pooled.depth}
    return pooled, deep


def _of_theta(values: Any) -> Examination:
    try:
        theta = np.asarray(values, float)
    except (TypeError, ValueError):
        raise UserError(f"propensities: {values!r}; {_EXPECTED}") from None
    theta = given_curve(theta.tolist() if theta.ndim == 1 else []).theta
    return Examination(theta, psi_by_theta("independent", theta, 1.0))


def _of_frame(frame: Any) -> tuple[Examination, BySegment]:
    try:
        table = to_table(frame, "propensities")
    except UserError as error:
        raise UserError(f"{error}; {_EXPECTED}") from None
    if "psi" not in table.column_names and {"position", "theta"} <= set(table.column_names):
        return _of_mapping(_theta_by_segment(table))
    if "segment" not in table.column_names:
        table = table.append_column("segment", pa.nulls(table.num_rows, pa.string()))
    return given_examination(table, "propensities")


def _theta_by_segment(table: pa.Table) -> dict[Any, Any]:
    """Return theta by position of every segment; None is all traffic.

    The rows of a segment end before the first position without theta.
    """
    curves: dict[Any, dict[int, float]] = {}
    names = table["segment"].to_pylist() if "segment" in table.column_names else None
    columns = zip(table["position"].to_pylist(), table["theta"].to_pylist(), strict=True)
    for row, (position, theta) in enumerate(columns):
        if theta is not None and not np.isnan(theta):
            curves.setdefault(names[row] if names else None, {})[position] = theta
    result = {}
    for name, curve in curves.items():
        known = next(k for k in range(1, len(curve) + 2) if k not in curve)
        if known > 1:
            result[name] = [curve[k] for k in range(1, known)]
    return result
