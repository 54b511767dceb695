"""Settings of a simulated click log: the section simulate."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Literal

from pydantic import Field, model_validator

from ulr.config.section import Count, Fraction, Section
from ulr.experiments.buckets import parse_bucket


class Examination(Section):
    """How simulated users examine a page."""

    model: Literal["independent", "continuous", "row_skipping", "cascade", "single_choice"]
    curve: Literal["power", "eye_tracking"]
    eta: Annotated[float, Field(ge=0)]
    width: Count
    gamma: Fraction
    continue_probability: Fraction
    phi: Fraction | Literal["relevance"]
    beta: Fraction


class Clicks(Section):
    """Click probabilities of simulated users."""

    positive: Fraction
    negative: Fraction
    trust: Fraction


class Segment(Section):
    """A fraction of the traffic with a separate examination curve."""

    name: str
    fraction: Fraction
    eta: Annotated[float, Field(ge=0)]


class Swap(Section):
    """A swap experiment, or a family of experiments with equal traffic."""

    kind: Literal["single", "adjacent", "pair", "shuffle"] | None = None
    bucket: str | None = None
    fraction: Fraction

    @model_validator(mode="after")
    def _one_of_two(self) -> Swap:
        if (self.kind is None) == (self.bucket is None):
            raise ValueError(
                "give either kind (single, adjacent, pair, shuffle) or bucket (such as 1:5)"
            )
        if self.bucket is not None:
            parse_bucket(self.bucket)
        return self

    @property
    def last_position(self) -> int:
        """Deepest position of the first bucket."""
        if self.bucket is not None:
            return parse_bucket(self.bucket).last_position
        return {"pair": 3, "shuffle": 1}.get(self.kind or "", 2)


class Simulate(Section):
    """A simulated log."""

    path: str
    seed: int
    layout: Literal["page", "impression", "ubi"]
    start: dt.date
    days: Count
    pages_per_day: Count
    max_clicks: Count | None
    pages_per_file: Count
    letor: list[str]
    queries: Count
    docs_per_query: Count
    features: Annotated[int, Field(ge=8)]
    positions: Count
    zipf: Annotated[float, Field(ge=0)]
    hot_query_fraction: Fraction
    ranker_queries: Fraction
    drift: Annotated[float, Field(ge=0)]
    relevance_noise: Fraction
    binarize: Count | None
    examination: Examination
    clicks: Clicks
    feedback: dict[str, Fraction]
    segments: list[Segment]
    swaps: list[Swap]

    @model_validator(mode="after")
    def _fractions(self) -> Simulate:
        if sum(s.fraction for s in self.swaps) > 1 + 1e-9:
            raise ValueError("swaps: the fractions add up to more than 1")
        if self.segments and abs(sum(s.fraction for s in self.segments) - 1) > 1e-9:
            raise ValueError("segments: the fractions must add up to 1")
        for swap in self.swaps:
            if swap.last_position > self.positions:
                raise ValueError(
                    f"swaps: {swap.kind or swap.bucket} needs {swap.last_position} positions, "
                    f"positions is {self.positions}; give more, or other swaps"
                )
        return self
