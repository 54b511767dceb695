"""Examination for the pairs stage: those of the warehouse, or of a file that a user gives.

Both are rows of segment, k, l, psi (theta where k = l), alpha, beta, with one set per segment and
one pooled. A curve ends before the first position that was refused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ulr.errors import UserError
from ulr.warehouse.storage import open_filesystem
from ulr.warehouse.tables import Warehouse


@dataclass(frozen=True)
class Examination:
    """What is known of examination, by position (index 0 is position 1).

    theta (K), psi (K x K, symmetric); alpha, beta (K) of P(click at k) = alpha R + beta.
    """

    theta: np.ndarray
    psi: np.ndarray
    alpha: np.ndarray | None = None
    beta: np.ndarray | None = None

    @property
    def depth(self) -> int:
        """How many positions are known."""
        return self.theta.size

    def cut(self, depth: int) -> Examination:
        """The first `depth` positions."""
        alpha, beta = (None if x is None else x[:depth] for x in (self.alpha, self.beta))
        return Examination(self.theta[:depth], self.psi[:depth, :depth], alpha, beta)


COLUMNS = ("segment", "k", "l", "psi")
WAREHOUSE = "warehouse"

Known = tuple[Examination, dict[str, Examination]]


def known_propensities(source: str, warehouse: Warehouse) -> Known:
    """Pooled propensities and each segment's, from the warehouse's tables or from a file."""
    return read_published(warehouse) if source == WAREHOUSE else read_examination(source)


def read_published(warehouse: Warehouse) -> Known:
    """What `ulr propensities` published last, if it is one run's."""
    made = [warehouse.current(table) for table in ("propensities", "joint_propensities")]
    if all(made) and made[0].fingerprint != made[1].fingerprint:
        raise UserError(
            "theta and psi in the warehouse are of different runs, since the last one was cut "
            "short; run `ulr propensities` again"
        )
    return as_published(warehouse.read("propensities"), warehouse.read("joint_propensities"))


def as_published(theta: pa.Table, psi: pa.Table) -> Known:
    """The same from the rows of the two tables."""
    pooled = _published_set(theta, psi, None)
    if pooled is None:
        raise UserError("propensities: position 1 was refused; see `ulr propensities` for why")
    names = [s for s in pc.unique(theta["segment"]).to_pylist() if s is not None]
    sets = {name: _published_set(theta, psi, name) for name in names}
    # A segment that is not known as deep as all traffic together is treated like all traffic.
    deep = {n: s.cut(pooled.theta.size) for n, s in sets.items() if s and s.depth >= pooled.depth}
    return pooled, deep


def _published_set(theta: pa.Table, psi: pa.Table, segment: str | None) -> Examination | None:
    rows, pairs = (
        t.filter(pc.is_null(t["segment"]) if segment is None else pc.equal(t["segment"], segment))
        for t in (theta, psi)
    )
    rows = rows.sort_by("position")
    curve, alpha, beta = (rows[n].to_numpy().astype(float) for n in ("theta", "alpha", "beta"))
    refused = np.flatnonzero(np.isnan(curve))
    depth = int(refused[0]) if refused.size else curve.size
    if depth == 0:
        return None
    matrix = np.full((curve.size, curve.size), np.nan)
    np.fill_diagonal(matrix, curve)
    k, v = (pairs[name].to_numpy() - 1 for name in ("k", "l"))
    matrix[k, v] = matrix[v, k] = pairs["psi"].to_numpy()
    trust = None if np.isnan(alpha[:depth]).any() or np.isnan(beta[:depth]).any() else (alpha, beta)
    return Examination(curve, matrix, *(trust or (None, None))).cut(depth)


def read_examination(url: str) -> tuple[Examination, dict[str, Examination]]:
    """The pooled propensities (rows without a segment, or the mean of all), and each segment's."""
    fs, path = open_filesystem(url)
    try:
        table = pq.read_table(path, filesystem=fs)
    except FileNotFoundError:
        raise UserError(f"no propensities at {url!r}; see pairs.propensities") from None
    except pa.ArrowInvalid as why:
        reason = str(why).splitlines()[0]
        raise UserError(f"{url}: expected a Parquet file of propensities; {reason}") from None
    lacking = [name for name in COLUMNS if name not in table.column_names]
    if lacking or table.num_rows == 0:
        what = f"no column {lacking[0]}" if lacking else "no rows"
        raise UserError(f"{url}: {what}; expected {', '.join(COLUMNS)} and alpha, beta if known")
    names = [s for s in pc.unique(table["segment"]).to_pylist() if s is not None]
    by_segment = {n: _one(table.filter(pc.equal(table["segment"], n)), url) for n in names}
    pooled = table.filter(pc.is_null(table["segment"]))
    return (_one(pooled, url) if pooled.num_rows else _mean(list(by_segment.values()))), by_segment


def _one(table: pa.Table, url: str) -> Examination:
    if table["k"].null_count or table["l"].null_count:
        raise UserError(f"{url}: a row without k or l; both are positions, from 1")
    if (lowest := min(pc.min(table["k"]).as_py(), pc.min(table["l"]).as_py())) < 1:
        raise UserError(f"{url}: position {lowest}; positions begin at 1, the top of the page")
    k, v = (table[name].to_numpy().astype(np.int64) - 1 for name in ("k", "l"))
    size = int(max(k.max(), v.max())) + 1
    psi = np.full((size, size), np.nan)
    psi[k, v] = psi[v, k] = table["psi"].to_numpy()
    if np.isnan(psi).any():
        at = np.argwhere(np.isnan(psi))[0] + 1
        raise UserError(f"{url}: no psi for positions ({at[0]}, {at[1]}); estimate it")
    alpha, beta = (_diagonal(table, name, size) for name in ("alpha", "beta"))
    return Examination(np.diag(psi).copy(), psi, alpha, beta)


def _diagonal(table: pa.Table, name: str, size: int) -> np.ndarray | None:
    if name not in table.column_names:
        return None
    own = table.filter(pc.equal(table["k"], table["l"]))
    if own[name].null_count or own.num_rows != size:
        return None
    values = np.empty(size)
    values[own["k"].to_numpy() - 1] = own[name].to_numpy()
    return values


def _mean(sets: list[Examination]) -> Examination:
    size = min(s.theta.size for s in sets)
    psi = np.mean([s.psi[:size, :size] for s in sets], axis=0)
    known = all(s.alpha is not None and s.beta is not None for s in sets)
    alpha = np.mean([s.alpha[:size] for s in sets], axis=0) if known else None
    beta = np.mean([s.beta[:size] for s in sets], axis=0) if known else None
    return Examination(np.diag(psi).copy(), psi, alpha, beta)
