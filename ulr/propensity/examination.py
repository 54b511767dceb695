"""Examination by position, for the stages that use it.

It comes from the tables that `ulr propensities` published, or from a Parquet file with columns
segment, k, l, psi (theta where k = l) and optionally alpha, beta (where k = l).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ulr.errors import InvalidData, TemporaryFailure, UserError
from ulr.propensity.examination_errors import ExaminationErrors, load_errors
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.tables import Warehouse

WAREHOUSE = "warehouse"  # the value of pairs.propensities that selects the published tables
COLUMNS = ("segment", "k", "l", "psi")


@dataclass(frozen=True)
class Examination:
    """Examination of positions 1 to K; index 0 is position 1.

    theta        (K,), P(examined)
    psi          (K, K), P(both examined), symmetric, theta on the diagonal
    alpha, beta  (K,), of P(click at k) = alpha_k R + beta_k, or None
    errors       of the curve of all traffic and those of the segments loaded with it; None: no
                 errors, or those of a segment, which are with all traffic
    """

    theta: np.ndarray
    psi: np.ndarray
    alpha: np.ndarray | None = None
    beta: np.ndarray | None = None
    errors: ExaminationErrors | None = None

    @property
    def depth(self) -> int:
        """The number of positions, K."""
        return self.theta.size

    def cut(self, depth: int) -> Examination:
        """Return the first `depth` positions, without errors."""
        alpha, beta = (None if x is None else x[:depth] for x in (self.alpha, self.beta))
        return Examination(self.theta[:depth], self.psi[:depth, :depth], alpha, beta)


BySegment = dict[str, Examination]


def load_examination(source: str, warehouse: Warehouse) -> tuple[Examination, BySegment]:
    """Return the examination of all traffic and of each segment.

    source: `warehouse` for the published tables, or the URL of a Parquet file.
    """
    return _load_published(warehouse) if source == WAREHOUSE else load_file(source)


def _load_published(warehouse: Warehouse) -> tuple[Examination, BySegment]:
    theta, psi = (warehouse.current(table) for table in ("propensities", "joint_propensities"))
    if theta and psi and theta.fingerprint != psi.fingerprint:
        raise TemporaryFailure(
            "theta and psi in the warehouse come from different runs, because the last run was "
            "interrupted; run `ulr propensities` again"
        )
    return examination_of(warehouse.read("propensities"), warehouse.read("joint_propensities"))


def examination_of(theta: pa.Table, psi: pa.Table) -> tuple[Examination, BySegment]:
    """Return the examination in rows of `propensities_schema` and `joint_propensities_schema`.

    It ends before the first position without an estimate. A segment that ends before all traffic
    does is left out, so that it is treated like all traffic.
    """
    diagonal = theta.select(["segment", "position", "position", "theta", "alpha", "beta"])
    columns = [*COLUMNS, "alpha", "beta"]
    rows = pa.concat_tables(
        [diagonal.rename_columns(columns), psi.select(COLUMNS)], promote_options="default"
    )
    pooled = _estimated(_rows_of(rows, None))
    if pooled.depth == 0:
        raise InvalidData(
            "position 1 of the published propensities has no estimate; run `ulr propensities "
            "--force` to see the reason"
        )
    by_segment = {name: _estimated(_rows_of(rows, name)) for name in _segments(rows)}
    deep = {n: own.cut(pooled.depth) for n, own in by_segment.items() if own.depth >= pooled.depth}
    errors = load_errors(theta, psi, [None, *deep], pooled.depth)
    return replace(pooled, errors=errors), deep


def load_file(url: str) -> tuple[Examination, BySegment]:
    """Return the examination in a Parquet file.

    All traffic is the rows without a segment; without such rows, the mean of the segments.
    """
    fs, path = open_filesystem(url)
    try:
        table = pq.read_table(path, filesystem=fs)
    except FileNotFoundError:
        raise UserError(f"no propensities at {url!r}; see pairs.propensities") from None
    except pa.ArrowInvalid as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{url}: expected a Parquet file of propensities; {reason}") from None
    _check_rows(table, url)
    by_segment = {name: _complete(_rows_of(table, name), url) for name in _segments(table)}
    pooled = _rows_of(table, None)
    if pooled.num_rows:
        return _complete(pooled, url), by_segment
    return _mean(list(by_segment.values())), by_segment


def _check_rows(table: pa.Table, url: str) -> None:
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing or table.num_rows == 0:
        what = f"no column {missing[0]}" if missing else "no rows"
        raise UserError(
            f"{url}: {what}; expected columns {', '.join(COLUMNS)}, and alpha, beta if known"
        )
    if table["k"].null_count or table["l"].null_count:
        raise UserError(f"{url}: a row without k or l; both are positions, from 1")
    if (lowest := min(pc.min(table["k"]).as_py(), pc.min(table["l"]).as_py())) < 1:
        raise UserError(f"{url}: position {lowest}; positions begin at 1, the top of the page")


def _segments(table: pa.Table) -> list[str]:
    return pc.unique(table["segment"]).drop_null().to_pylist()


def _rows_of(table: pa.Table, segment: str | None) -> pa.Table:
    names = table["segment"]
    return table.filter(pc.is_null(names) if segment is None else pc.equal(names, segment))


def _estimated(table: pa.Table) -> Examination:
    """Return the positions above the first one without an estimate."""
    psi, trust = _arrays(table)
    missing = np.flatnonzero(np.isnan(np.diag(psi)))
    return _examination(psi, trust, int(missing[0]) if missing.size else len(psi))


def _complete(table: pa.Table, url: str) -> Examination:
    """Return all positions; raise UserError if a pair has no psi."""
    psi, trust = _arrays(table)
    missing = np.argwhere(np.isnan(psi)) + 1
    if missing.size:
        k, v = missing[0]
        raise UserError(f"{url}: no psi for positions ({k}, {v}); add a row for them")
    return _examination(psi, trust, len(psi))


def _arrays(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return psi (K, K) and alpha, beta (2, K) of one segment, NaN where there is no value."""
    k, v = (table[name].to_numpy().astype(np.int64) - 1 for name in ("k", "l"))
    size = int(max(k.max(), v.max())) + 1
    psi, trust = np.full((size, size), np.nan), np.full((2, size), np.nan)
    psi[k, v] = psi[v, k] = table["psi"].to_numpy()
    for row, name in enumerate(("alpha", "beta")):
        if name in table.column_names:
            trust[row, k[k == v]] = table[name].to_numpy()[k == v]
    return psi, trust


def _examination(psi: np.ndarray, trust: np.ndarray, depth: int) -> Examination:
    """Return the first positions, with alpha and beta only if all of them are known."""
    psi, trust = psi[:depth, :depth], trust[:, :depth]
    alpha, beta = (None, None) if np.isnan(trust).any() else trust
    return Examination(np.diag(psi).copy(), psi, alpha, beta)


def _mean(segments: list[Examination]) -> Examination:
    """Return the mean of the segments, to the depth of the shortest."""
    depth = min(own.depth for own in segments)
    cut = [own.cut(depth) for own in segments]
    trust = [(x.alpha, x.beta) for x in cut if x.alpha is not None and x.beta is not None]
    mean = np.mean(trust, axis=0) if len(trust) == len(cut) else np.full((2, depth), np.nan)
    return _examination(np.mean([own.psi for own in cut], axis=0), mean, depth)
