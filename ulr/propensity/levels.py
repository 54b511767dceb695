"""theta of every level of feedback, and whether the levels agree (docs/methods.md section 3.14).

theta is a property of positions. If an event below a click does not depend on the position, given
the click, its rates have the theta of clicks. Weights use the curve of the lowest level, any event,
which has the most data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.config.settings import Propensities
from ulr.propensity.curve import ThetaCurve, make_curve
from ulr.propensity.curve_checks import compare_curves
from ulr.propensity.estimators import NEED_HARVEST, SWAP_BUCKETS, Evidence, estimate_theta
from ulr.propensity.findings import Finding, bonferroni
from ulr.warehouse.schema import level_propensities_schema

CHECK = "levels"


@dataclass(frozen=True)
class LevelCurve:
    """The curve of a level. event: its name. events: documents of all pages with it or higher."""

    event: str
    events: int
    curve: ThetaCurve


def level_curve(evidence: Evidence, settings: Propensities) -> ThetaCurve:
    """Return the curve of a level; without estimates if the estimator takes other evidence."""
    if settings.estimator in (*SWAP_BUCKETS, *NEED_HARVEST):
        return estimate_theta(evidence, settings)
    k = evidence.swaps.positions
    reasons = dict.fromkeys(
        range(1, k + 1), f"{settings.estimator} estimates the lowest level only"
    )
    none = np.full(k, np.nan)
    return make_curve(
        settings.estimator, none, np.full((k, k), np.nan), np.zeros(k, np.int64), reasons
    )


def events_in(swaps: pa.Table) -> int:
    """Return the documents with an event, from rows of `swap_counts_schema` of one level."""
    own = pc.and_(pc.equal(swaps["condition"], 0), pc.equal(swaps["k"], swaps["l"]))
    clicks = swaps.filter(pc.and_(own, pc.greater(swaps["k"], 0)))
    return pc.sum(clicks["sessions"]).as_py() or 0


def level_findings(levels: Sequence[LevelCurve], significance: float) -> list[Finding]:
    """Test whether the curve of each higher level is that of the lowest.

    The events of a level are among those of the lowest. The test adds the errors as if they were
    not, so it has less power and no more false alarms.
    """
    lowest, *higher = levels
    rows, findings = [], []
    for level in higher:
        compared = compare_curves(lowest.curve, level.curve)
        if compared is None:
            message = f"too few events of {level.event} or higher ({level.events:,}) for a curve"
            findings.append(Finding(CHECK, level.event, np.nan, np.nan, "ok", message))
            continue
        statistic, p_value, message = compared
        message = f"{level.event} or higher against {lowest.event} or higher: {message}"
        rows.append((CHECK, level.event, statistic, p_value, message))
    return bonferroni(rows, significance) + findings if rows else findings


def level_table(levels: Sequence[LevelCurve]) -> pa.Table:
    """Return rows of `level_propensities_schema`."""
    rows = []
    for number, level in enumerate(levels, start=1):
        curve = level.curve
        lower, upper = curve.interval()
        columns = {"theta": curve.theta, "standard_error": curve.standard_error,
                   "lower": lower, "upper": upper}  # fmt: skip
        for i in range(curve.positions):
            known = {n: float(v[i]) if np.isfinite(v[i]) else None for n, v in columns.items()}
            rows.append({
                "level": number, "event": level.event, "events": level.events, "position": i + 1,
                **known, "support": int(curve.support[i]), "source": curve.source[i],
                "note": curve.note[i],
            })  # fmt: skip
    return pa.Table.from_pylist(rows, schema=level_propensities_schema)
