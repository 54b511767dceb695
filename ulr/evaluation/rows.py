"""Totals as rows of the metrics table, and what a person reads of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ulr.evaluation.totals import Estimate, Key, Totals
from ulr.warehouse.schema import metrics_schema

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
