"""Totals of every metric: sums over queries that add over partitions.

A metric is a ratio of two sums over queries, `estimate.py` turns its totals into an interval. Two
models share w, so the difference of their ratios is the ratio of x_a - x_b: a paired comparison
needs the same totals. The totals also contain the gradients of both sums by the propensities. The
error of the propensities is the same in all partitions, so it enters after all totals are added.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ulr.evaluation.estimate import Estimate, finish
from ulr.warehouse.schema import metrics_schema

STAGE = "evaluate"  # in the table `metrics`
QUERY_SUMS = 8  # the first totals of a key; its gradients follow
NO_GRADIENT = np.zeros((2, 0))

# From the gradients of sum x and sum w, (2, parameters), to the covariance of the two sums.
Scatter = Callable[[np.ndarray], np.ndarray]


class Column(NamedTuple):
    """A metric of every query: x and w (float64). position: None, or the one it describes.

    gradient: (2, parameters), the derivatives of sum x and of sum w by the propensities.
    """

    name: str
    position: int | None
    x: np.ndarray
    w: np.ndarray
    gradient: np.ndarray = NO_GRADIENT


class Key(NamedTuple):
    """An estimate's ranking, the ranking it is compared with (None: none), its segment (None: all
    traffic), its position (None: all) and its metric."""

    subject: str
    against: str | None
    segment: str | None
    position: int | None
    name: str


@dataclass(frozen=True)
class Totals:
    """Per key: the sums that `finish` reads, followed by the gradients until these are replaced.

    scatter: (2, 2) per key, the covariance of sum x and sum w by the error of the propensities.
    """

    sums: Mapping[Key, np.ndarray] = field(default_factory=dict)
    scatter: Mapping[Key, np.ndarray] = field(default_factory=dict)

    def __add__(self, other: Totals) -> Totals:
        """Add key by key; a missing key counts as 0."""
        if self.scatter or other.scatter:
            raise ValueError("add the totals before the error of the propensities")
        merged = dict(self.sums)
        for key, sums in other.sums.items():
            merged[key] = merged[key] + sums if key in merged else sums
        return Totals(merged)

    def with_propensity_errors(self, scatter: Scatter | None) -> Totals:
        """Replace the gradients by their scatter; None: the propensities have no error."""
        sums = {key: total[:QUERY_SUMS] for key, total in self.sums.items()}
        if scatter is None:
            return Totals(sums)
        gradients = {key: total[QUERY_SUMS:].reshape(2, -1) for key, total in self.sums.items()}
        return Totals(sums, {key: scatter(g) for key, g in gradients.items() if g.size})

    @property
    def has_propensity_errors(self) -> bool:
        """Whether intervals contain the error of the propensities."""
        return bool(self.scatter)

    def estimates(self) -> dict[Key, Estimate]:
        """Finish every key; keys without any weight are left out."""
        finished = ((key, finish(sums[:QUERY_SUMS], self.scatter.get(key)))
                    for key, sums in self.sums.items())  # fmt: skip
        return {key: estimate for key, estimate in finished if estimate is not None}

    def to_json(self) -> str:
        """Return the totals as text, without loss."""
        none = np.zeros((0, 2))
        rows = [[*key, sums.tolist(), self.scatter.get(key, none).tolist()]
                for key, sums in self.sums.items()]  # fmt: skip
        return json.dumps(rows)


def read_totals(text: str) -> Totals:
    """Read the text of `Totals.to_json`."""
    sums, scatter = {}, {}
    for *key, values, errors in json.loads(text):
        sums[Key(*key)] = np.array(values)
        if errors:
            scatter[Key(*key)] = np.array(errors)
    return Totals(sums, scatter)


def total(
    columns: Iterable[Column], subject: str, segment: str | None, against: str | None = None
) -> Totals:
    """Sum the columns over their queries."""
    sums = {}
    for name, position, x, w, gradient in columns:
        parts = [np.count_nonzero(w), x.sum(), w.sum(), x @ x, x @ w, w @ w, w @ w**2, w**2 @ w**2]
        key = Key(subject, against, segment, position, name)
        sums[key] = np.concatenate([np.array(parts, float), gradient.ravel()])
    return Totals(sums)


def difference(first: Iterable[Column], second: Iterable[Column]) -> list[Column]:
    """Subtract query by query; both have the same metrics and the same w."""
    return [_subtract(a, b) for a, b in zip(first, second, strict=True)]


def _subtract(a: Column, b: Column) -> Column:
    gradient = np.stack([a.gradient[0] - b.gradient[0], a.gradient[1]])
    return Column(a.name, a.position, a.x - b.x, a.w, gradient)


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
