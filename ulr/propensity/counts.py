"""The counts of a window, from which the estimators get their evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from ulr.experiments.serving import Plan
from ulr.propensity.affine import regressions
from ulr.propensity.estimators import Evidence
from ulr.propensity.exposures import Exposures
from ulr.propensity.schema import harvest_schema, moments_schema
from ulr.propensity.swap_counts import counts_of


@dataclass(frozen=True)
class WindowCounts:
    """The tables of counts; those that the settings do not need are empty."""

    swaps: pa.Table
    harvest: pa.Table = field(default_factory=harvest_schema.empty_table)
    moments: pa.Table = field(default_factory=moments_schema.empty_table)
    exposures: Exposures | None = None

    def of(self, segment: str) -> WindowCounts:
        tables = (self.swaps, self.harvest, self.moments)
        return WindowCounts(*(t.filter(pc.equal(t["segment"], segment)) for t in tables))

    def evidence(
        self,
        positions: int,
        plan: Plan | None,
        theta: Sequence[float] = (),
        reached: Sequence[int] = (),
    ) -> Evidence:
        trust = regressions(self.moments)
        swaps = counts_of(self.swaps, positions)
        return Evidence(swaps, self.harvest, trust, self.exposures, list(theta), plan, reached)
