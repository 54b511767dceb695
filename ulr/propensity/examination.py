"""Examination by position, for the stages that use it.

It comes from the tables that `ulr propensities` published, or from a Parquet file with columns
segment, k, l, psi (theta where k = l) and optionally alpha, beta (where k = l), kappa (where
k != l), and stop_probability, continue_probability (of any row: one value per segment).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

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
AFFINE, CASCADE = "affine", "cascade"  # click models, and the methods that correct for them
_STOPPING = ("stop_probability", "continue_probability")


@dataclass(frozen=True)
class Examination:
    """Examination of positions 1 to K; index 0 is position 1.

    Published values are relative to position 1; here they are multiplied by P(position 1 is
    examined), which is 1 where it is not known.

    theta        (K,), P(examined)
    psi          (K, K), P(both examined), symmetric, theta on the diagonal
    alpha, beta  (K,), of P(click at k) = alpha_k R + beta_k, or None
    kappa        (K, K), co-click rate over the product of the click rates of two documents of one
                 ranking, or None: psi / (theta theta)
    stop_probability      phi: P(a user leaves the page after a click), or None
    continue_probability  P(a user continues to the next position otherwise), or None
    click_model  what the diagnostics found: `affine` (trust bias), `cascade` (users stop after
                 clicks), or "" (clicks are examined and relevant)
    errors       of the curve of all traffic and those of the segments loaded with it; None: no
                 errors, or those of a segment, which are with all traffic
    """

    theta: np.ndarray
    psi: np.ndarray
    alpha: np.ndarray | None = None
    beta: np.ndarray | None = None
    kappa: np.ndarray | None = None
    stop_probability: float | None = None
    continue_probability: float | None = None
    click_model: str = ""
    errors: ExaminationErrors | None = None

    @property
    def depth(self) -> int:
        """The number of positions, K."""
        return self.theta.size

    def click_rates(self, affine: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return alpha and beta of P(click | position) = alpha R + beta, float64 of shape (K,).

        affine: those under trust bias; else alpha is theta and beta is 0.
        """
        if not affine:
            return self.theta, np.zeros(self.depth)
        if self.alpha is None or self.beta is None:
            raise UserError(
                "evaluate.correction=affine needs alpha and beta; estimate them with "
                "propensities.estimator=affine, or use evaluate.correction=theta"
            )
        return self.alpha, self.beta

    def cut(self, depth: int) -> Examination:
        """Return the first `depth` positions, without errors."""
        alpha, beta = (None if x is None else x[:depth] for x in (self.alpha, self.beta))
        kappa = None if self.kappa is None else self.kappa[:depth, :depth]
        return replace(
            self, theta=self.theta[:depth], psi=self.psi[:depth, :depth], alpha=alpha, beta=beta,
            kappa=kappa,
        )  # fmt: skip

    def scaled(self, theta_1: float) -> Examination:
        """Return the probabilities behind theta and psi that are relative to theta_1.

        alpha and beta are of clicks, so they are not relative.
        """
        return replace(self, theta=theta_1 * self.theta, psi=theta_1 * self.psi)


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
    more = [n for n in ("alpha", "beta", *_STOPPING, "click_model") if n in theta.column_names]
    diagonal = theta.select(["segment", "position", "position", "theta", *more])
    pairs = psi.select([*COLUMNS, *(["kappa"] if "kappa" in psi.column_names else [])])
    rows = pa.concat_tables(
        [diagonal.rename_columns([*COLUMNS, *more]), pairs], promote_options="default"
    )

    def examination(segment: str | None) -> Examination:
        return _estimated(_rows_of(rows, segment)).scaled(_theta_1(_rows_of(theta, segment)))

    pooled = examination(None)
    if pooled.depth == 0:
        raise InvalidData(
            "position 1 of the published propensities has no estimate; run `ulr propensities "
            "--force` to see the reason"
        )
    by_segment = {name: examination(name) for name in _segments(rows)}
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
    return given_examination(table, url)


def given_examination(table: pa.Table, url: str) -> tuple[Examination, BySegment]:
    """Return the examination in the rows of such a file. url: names them in errors."""
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


def _theta_1(table: pa.Table) -> float:
    """Return P(position 1 is examined) of one segment; 1 in tables of earlier versions."""
    return (table["theta_1"][0].as_py() or 1.0) if "theta_1" in table.column_names else 1.0


def _estimated(table: pa.Table) -> Examination:
    """Return the positions above the first one without an estimate."""
    known = _arrays(table)
    missing = np.flatnonzero(np.isnan(known.theta))
    return _known(known, int(missing[0]) if missing.size else known.depth)


def _complete(table: pa.Table, url: str) -> Examination:
    """Return all positions; raise UserError if a pair has no psi."""
    known = _arrays(table)
    missing = np.argwhere(np.isnan(known.psi)) + 1
    if missing.size:
        k, v = missing[0]
        raise UserError(f"{url}: no psi for positions ({k}, {v}); add a row for them")
    known = _known(known, known.depth)
    return replace(known, click_model=known.click_model or _implied_click_model(known))


def _implied_click_model(values: Examination) -> str:
    """Return the click model that given values describe: no diagnostic has tested them.

    Under trust bias beta / alpha differs between positions; click noise alone leaves it constant.
    """
    if values.stop_probability and values.continue_probability:
        return CASCADE
    if values.alpha is None or values.beta is None:
        return ""
    ratio = values.beta / values.alpha
    return AFFINE if np.ptp(ratio) > 1e-6 else ""


def _arrays(table: pa.Table) -> Examination:
    """Return the values of one segment, NaN where there is no value."""
    k, v = (table[name].to_numpy().astype(np.int64) - 1 for name in ("k", "l"))
    size = int(max(k.max(), v.max())) + 1

    def column(name: str) -> np.ndarray:
        return table[name].cast(pa.float64()).to_numpy()

    (psi, kappa), (alpha, beta) = np.full((2, size, size), np.nan), np.full((2, size), np.nan)
    for matrix, name in ((psi, "psi"), (kappa, "kappa")):
        if name in table.column_names:
            matrix[k, v] = matrix[v, k] = column(name)
    np.fill_diagonal(kappa, 1.0)  # of no pair
    for row, name in ((alpha, "alpha"), (beta, "beta")):
        if name in table.column_names:
            row[k[k == v]] = column(name)[k == v]
    return Examination(
        np.diag(psi).copy(), psi, alpha, beta, kappa,
        stop_probability=_first(table, "stop_probability"),
        continue_probability=_first(table, "continue_probability"),
        click_model=_first(table, "click_model") or "",
    )  # fmt: skip


def _first(table: pa.Table, name: str) -> Any:
    """Return the first value of an optional column that is not null, else None."""
    values = table[name].drop_null().slice(0, 1) if name in table.column_names else None
    return values[0].as_py() if values else None


def _known(values: Examination, depth: int) -> Examination:
    """Return the first positions; alpha, beta and kappa only if all of them are known."""
    cut = values.cut(depth)
    if _has_gap(cut.kappa):
        cut = replace(cut, kappa=None)
    if _has_gap(cut.alpha) or _has_gap(cut.beta):
        cut = replace(cut, alpha=None, beta=None)
    return cut


def _has_gap(values: np.ndarray | None) -> bool:
    return values is None or bool(np.isnan(values).any())


def _mean(segments: list[Examination]) -> Examination:
    """Return the mean of the segments, to the depth of the shortest."""
    depth = min(own.depth for own in segments)
    cut = [own.cut(depth) for own in segments]

    def mean(name: str) -> Any:
        values = [getattr(own, name) for own in cut]
        return None if any(x is None for x in values) else np.mean(values, axis=0)

    names = [f.name for f in fields(Examination) if f.name != "click_model"]
    return Examination(**{name: mean(name) for name in names}, click_model=cut[0].click_model)
