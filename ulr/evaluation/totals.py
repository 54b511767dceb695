"""Every estimate is a ratio of two sums over queries, kept as six totals that add.

    r = sum x / sum w,    Var r = n / (n - 1) * sum (x - r w)^2 / (sum w)^2

the linearised variance of a ratio with whole queries as clusters (Cochran 1977, ch. 2 and 6).
With w = 1 it is a mean and its usual standard error. Two models share w, so the difference of
their ratios is the ratio of x_a - x_b: a paired comparison is the same six totals again.

The variance is that of the queries. Weights of clicks (theta, psi) are taken as exact: their own
error is the same for all models, and is not in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import stats

from ulr.warehouse.schema import metrics_schema

CONFIDENCE = 0.95


class Column(NamedTuple):
    """A metric of every query: x and w (float64). position: None, or the one it is about."""

    name: str
    position: int | None
    x: np.ndarray
    w: np.ndarray


class Key(NamedTuple):
    """Of whom, compared with whom (None: with nobody), in which segment (None: all), what."""

    subject: str
    against: str | None
    segment: str | None
    position: int | None
    name: str


class Estimate(NamedTuple):
    """A value with its standard error, 95% interval, p-value of being 0, and queries behind it."""

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
        """Both; a key that one side lacks has seen nothing there."""
        merged = dict(self.sums)
        for key, sums in other.sums.items():
            merged[key] = merged[key] + sums if key in merged else sums
        return Totals(merged)

    def estimates(self) -> dict[Key, Estimate]:
        """What can be said; a key without any weight says nothing and is left out."""
        found = {key: finish(sums) for key, sums in self.sums.items()}
        return {key: estimate for key, estimate in found.items() if estimate is not None}

    def to_json(self) -> str:
        """For the way from a task to the driver."""
        return json.dumps([[*key, sums.tolist()] for key, sums in self.sums.items()])


def read_totals(text: str) -> Totals:
    """What `to_json` wrote."""
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


def minus(ours: Iterable[Column], theirs: Iterable[Column]) -> list[Column]:
    """The difference query by query; both have the same metrics and the same w."""
    return [
        Column(a.name, a.position, a.x - b.x, a.w) for a, b in zip(ours, theirs, strict=True)
    ]  # fmt: skip


def finish(sums: np.ndarray) -> Estimate | None:
    """The estimate behind six totals; one query alone has an infinite interval."""
    n, x, w, xx, xw, ww = sums
    if w == 0:
        return None
    value = x / w
    if n < 2:
        return Estimate(value, np.inf, -np.inf, np.inf, 1.0, int(n))
    # Rounding can leave a tiny negative number where every query agrees.
    scatter = max(0.0, xx - 2 * value * xw + value**2 * ww)
    error = float(np.sqrt(n / (n - 1) * scatter) / abs(w))
    reach = stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) * error
    return Estimate(
        float(value), error, value - reach, value + reach, _p_value(value, error, n), int(n)
    )


def _p_value(value: float, error: float, n: float) -> float:
    if error == 0:
        return 1.0 if value == 0 else 0.0
    return float(2 * stats.t.sf(abs(value) / error, n - 1))


STAGE = "evaluate"


def metrics_table(totals: Totals) -> pa.Table:
    """One row per number, in the order of its key."""
    found = totals.estimates().items()
    rows = [_row(key, estimate) for key, estimate in sorted(found, key=lambda e: _order(e[0]))]
    return pa.Table.from_pylist(rows, schema=metrics_schema)


def metric_values(totals: Totals, subject: str, against: str | None = None) -> dict[str, Estimate]:
    """The numbers of one subject over all traffic, by name."""
    return {
        key.name: estimate
        for key, estimate in totals.estimates().items()
        if key.subject == subject
        and key.against == against
        and key.segment is None
        and key.position is None
    }


def _row(key: Key, estimate: Estimate) -> dict[str, Any]:
    interval = {
        name: float(value) if np.isfinite(value) else None
        for name, value in estimate._asdict().items()
    }
    interval["p_value"] = interval["p_value"] if key.against else None
    return {"stage": STAGE, **key._asdict(), **interval, "queries": estimate.queries}


def _order(key: Key) -> tuple:
    return tuple(("", 0) if part is None else (str(part), 1) if isinstance(part, str)
                 else ("", part) for part in key)  # fmt: skip
