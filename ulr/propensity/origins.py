"""Where theta of each position comes from: swaps, rank changes, features, or no estimate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from ulr.propensity.curve import ESTIMATED, HARVESTED
from ulr.propensity.curve_checks import position_ranges
from ulr.propensity.harvesting import FORMS


def origins(curve: pa.Table) -> dict[int, str]:
    """Return where theta of each position of all traffic comes from, of `propensities_schema`."""
    rows = curve.filter(pc.is_null(curve["segment"])).select(["position", "estimator", "source"])
    return {row["position"]: _origin(row["estimator"], row["source"]) for row in rows.to_pylist()}


def _origin(estimator: str, source: str) -> str:
    """Return swaps, rank changes or features for an estimate, else its source."""
    if source == HARVESTED or (source == ESTIMATED and estimator in FORMS):
        return "rank changes"
    if source != ESTIMATED:
        return source
    return "features" if estimator == "regression_em" else "swaps"


def origin_counts(origin: Mapping[int, str]) -> dict[str, int]:
    """Return the number of positions by origin, for a manifest."""
    counts = Counter(f"positions_{name.replace(' ', '_')}" for name in origin.values())
    return dict(sorted(counts.items()))


def changed_origins(before: Mapping[int, str], after: Mapping[int, str]) -> str:
    """Return which positions have another origin than before; "" if none."""
    moved: dict[tuple[str, str], list[int]] = {}
    for k in sorted(before.keys() & after.keys()):
        if before[k] != after[k]:
            moved.setdefault((before[k], after[k]), []).append(k)
    parts = [f"{position_ranges(ks)} from {old} to {new}" for (old, new), ks in moved.items()]
    return f"the source of theta has changed: positions {'; '.join(parts)}" if parts else ""
