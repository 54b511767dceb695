"""Errors of the examination that an evaluation uses, read from the published tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class ExaminationErrors:
    """Errors of C curves of K positions; the first is that of all traffic, then the segments.

    covariance      (C, M, C, M), of log theta (M = K), or of log alpha and then beta (M = 2 K)
    psi_slope       (C, K (K - 1) / 2, K), the derivative of log psi(k, l) by log theta, k < l
    psi_covariance  (C, K (K - 1) / 2, K (K - 1) / 2), of the part of log psi that theta leaves
    """

    covariance: np.ndarray
    psi_slope: np.ndarray
    psi_covariance: np.ndarray


def load_errors(
    theta: pa.Table, psi: pa.Table, segments: Sequence[str | None], depth: int
) -> ExaminationErrors | None:
    """Return the errors of the segments' curves to a depth; None for tables without errors.

    theta, psi: rows of `propensities_schema` and `joint_propensities_schema`.
    """
    if (
        "covariance" not in theta.column_names
        or not pc.any(pc.is_valid(theta["covariance"])).as_py()
    ):
        return None
    rows = np.concatenate([_rows_of(theta, segment)[:depth] for segment in segments])
    covariance = _matrix(theta["covariance"], theta.num_rows)[np.ix_(rows, rows)]
    curves = len(segments)
    blocks = covariance.reshape(curves, 1, depth, curves, 1, depth)
    if pc.any(pc.is_valid(theta["beta_covariance"])).as_py():
        blocks = _with_beta(theta, rows, covariance, curves)
    log_theta = theta["theta"].to_numpy()[rows].reshape(curves, depth)
    parts = [
        _psi_errors(psi, segment, own) for segment, own in zip(segments, log_theta, strict=True)
    ]
    slope, own_covariance = (np.stack(part) for part in zip(*parts, strict=True))
    size = blocks.shape[1] * depth
    return ExaminationErrors(blocks.reshape(curves, size, curves, size), slope, own_covariance)


def _rows_of(table: pa.Table, segment: str | None) -> np.ndarray:
    names = table["segment"]
    own = pc.is_null(names) if segment is None else pc.equal(names, segment).fill_null(False)
    return np.flatnonzero(own.to_numpy())


def _matrix(column: pa.ChunkedArray, width: int) -> np.ndarray:
    """Return lists of equal length as rows of a matrix; null becomes zeros."""
    values = np.zeros((len(column), width))
    known = column.is_valid().to_numpy()
    flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
    values[known] = flat.reshape(-1, width)
    return values


def _with_beta(
    theta: pa.Table, rows: np.ndarray, covariance: np.ndarray, curves: int
) -> np.ndarray:
    """Return the covariance of log alpha and beta: (C, 2, K, C, 2, K)."""
    size = theta.num_rows
    beta = _matrix(theta["beta_covariance"], 2 * size)[rows]
    with_theta, with_beta = beta[:, rows], beta[:, size + rows]
    whole = np.block([[covariance, with_theta.T], [with_theta, with_beta]])
    shape = (2, curves, rows.size // curves)
    return whole.reshape(*shape, *shape).transpose(1, 0, 2, 4, 3, 5)


def _psi_errors(
    psi: pa.Table, segment: str | None, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope of log psi by log theta, and the covariance of what theta leaves of it.

    An estimated psi has the error of psi(1, 2) = theta(2) P(e_1 | e_2) and its own. A psi that was
    projected onto the smaller theta, and one imputed from a model with nested examination, has the
    error of that theta.
    """
    depth = theta.size
    k, v = np.triu_indices(depth, 1)
    slope, covariance = np.zeros((k.size, depth)), np.zeros((k.size, k.size))
    rows = _rows_of(psi, segment)
    own = psi.take(pa.array(rows))
    at = own["k"].to_numpy() - 1, own["l"].to_numpy() - 1
    deepest = int(np.max(at[1], initial=0)) + 1
    index = np.full((max(deepest, depth), max(deepest, depth)), -1)
    index[at] = np.arange(rows.size)
    pair = index[k, v]
    value = np.append(own["psi"].to_numpy(), np.nan)[pair]
    source = np.append(np.array(own["source"].to_pylist(), object), "")[pair]
    browsing = np.append(np.array(own["browsing"].to_pylist(), object), "")[pair]
    smaller = np.where(theta[k] < theta[v], k, v)
    nested = np.isclose(value, theta[smaller], rtol=1e-9)
    estimated = (source == "estimated") & ~nested
    product = (source == "imputed") & (browsing == "independent") & ~nested
    place = np.arange(k.size)
    slope[place[estimated], 1] = 1.0
    slope[place[product], k[product]] = slope[place[product], v[product]] = 1.0
    rest = ~estimated & ~product
    slope[place[rest], smaller[rest]] = 1.0
    if "covariance" in psi.column_names and estimated.any():
        known = _matrix(own["covariance"], rows.size)
        covariance[np.ix_(estimated, estimated)] = known[np.ix_(pair[estimated], pair[estimated])]
    return slope, covariance
