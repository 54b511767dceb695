"""Every estimate is a ratio of two sums over queries, kept as six totals that add.

    r = sum x / sum w,    Var r = n / (n - 1) * sum (x - r w)^2 / (sum w)^2

This is the linearised variance of a ratio with whole queries as clusters (Cochran 1977, chapters 2
and 6). With w = 1 it is a mean with its usual standard error. Two models share w, so the
difference of their ratios is the ratio of x_a - x_b: a paired comparison needs the same six totals.

The variance covers the queries only. Click weights (theta, psi) are treated as exact: their error
is the same for all models, and is not included.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.special import stdtr, stdtrit  # scipy.stats takes half a second to import

from ulr.warehouse.schema import metrics_schema

CONFIDENCE = 0.95
STAGE = "evaluate"  # in the table `metrics`


class Column(NamedTuple):
    """A metric of every query: x and w (float64). position: None, or the one it describes."""

    name: str
    position: int | None
    x: np.ndarray
    w: np.ndarray


class Key(NamedTuple):
    """An estimate's ranking, the ranking it is compared with (None: none), its segment (None: all
    traffic), its position (None: all) and its metric."""

    subject: str
    against: str | None
    segment: str | None
    position: int | None
    name: str


class Estimate(NamedTuple):
    """A value with its standard error, 95% interval, p-value against 0, and number of queries."""

    value: float
    standard_error: float
    lower: float
    upper: float
    p_value: float
    queries: int


@dataclass(frozen=True)
class Totals:
    """Per key: queries with w != 0, then sums of x, w, x^2, x w and w^2."""

    sums: Mapping[Key, np.ndarray] = field(default_factory=dict)

    def __add__(self, other: Totals) -> Totals:
        """Add key by key; a missing key counts as 0."""
        merged = dict(self.sums)
        for key, sums in other.sums.items():
            merged[key] = merged[key] + sums if key in merged else sums
        return Totals(merged)

    def estimates(self) -> dict[Key, Estimate]:
        """Finish every key; keys without any weight are left out."""
        finished = ((key, finish(sums)) for key, sums in self.sums.items())
        return {key: estimate for key, estimate in finished if estimate is not None}

    def to_json(self) -> str:
        """Return the totals as text, without loss."""
        return json.dumps([[*key, sums.tolist()] for key, sums in self.sums.items()])


def read_totals(text: str) -> Totals:
    """Read the text of `Totals.to_json`."""
    return Totals({Key(*key): np.array(sums) for *key, sums in json.loads(text)})


def total(
    columns: Iterable[Column], subject: str, segment: str | None, against: str | None = None
) -> Totals:
    """Sum the columns over their queries."""
    sums = {}
    for name, position, x, w in columns:
        parts = [np.count_nonzero(w), x.sum(), w.sum(), x @ x, x @ w, w @ w]
        sums[Key(subject, against, segment, position, name)] = np.array(parts, float)
    return Totals(sums)


def difference(first: Iterable[Column], second: Iterable[Column]) -> list[Column]:
    """Subtract query by query; both have the same metrics and the same w."""
    return [Column(a.name, a.position, a.x - b.x, a.w) for a, b in zip(first, second, strict=True)]


def finish(sums: np.ndarray) -> Estimate | None:
    """Turn six totals into an estimate: None without weight, an infinite interval for one query."""
    n, x, w, xx, xw, ww = sums
    if w == 0:
        return None
    value = x / w
    if n < 2:
        return Estimate(value, np.inf, -np.inf, np.inf, 1.0, int(n))
    # Rounding can leave a tiny negative number where every query agrees.
    scatter = max(0.0, xx - 2 * value * xw + value**2 * ww)
    error = float(np.sqrt(n / (n - 1) * scatter) / abs(w))
    reach = stdtrit(n - 1, (1 + CONFIDENCE) / 2) * error
    return Estimate(
        float(value), error, value - reach, value + reach, _p_value(value, error, n), int(n)
    )


def _p_value(value: float, error: float, n: float) -> float:
    if error == 0:
        return 1.0 if value == 0 else 0.0
    return float(2 * stdtr(n - 1, -abs(value) / error))


def metric_values(totals: Totals, subject: str, against: str | None = None) -> dict[str, Estimate]:
    """Return the estimates of one subject over all traffic and positions, by metric."""
    wanted = (subject, against, None, None)
    return {key.name: value for key, value in totals.estimates().items() if key[:4] == wanted}


def metrics_table(totals: Totals) -> pa.Table:
    """Return the rows of the table `metrics`, sorted by key."""
    estimates = sorted(totals.estimates().items(), key=lambda item: _order(item[0]))
    rows = [_row(key, estimate) for key, estimate in estimates]
    return pa.Table.from_pylist(rows, schema=metrics_schema)


def _row(key: Key, estimate: Estimate) -> dict[str, Any]:
    finite = {
        name: float(value) if np.isfinite(value) else None
        for name, value in estimate._asdict().items()
    }
    p_value = finite["p_value"] if key.against else None
    return {"stage": STAGE, **key._asdict(), **finite, "p_value": p_value,
            "queries": estimate.queries}  # fmt: skip


def _order(key: Key) -> tuple[tuple[bool, str | int], ...]:
    """Sort None before every value of a field."""
    return tuple((part is not None, "" if part is None else part) for part in key)
