"""Whether a challenger is worse than a rival by more than a margin (docs/methods.md 7.6)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

from ulr.evaluation.metrics import is_lower_better
from ulr.evaluation.totals import Estimate

State = Literal["not worse", "worse", "undecided"]
# Standard errors of a normal distribution: 97.5%, 90% and 80% of it are below.
_TWO_SIDED_95, _ONE_SIDED_90, _POWER_80 = 1.960, 1.282, 0.842
# A loss of this many margins against the anchor is outside the interval of this many errors.
_ANCHOR_MARGINS, _ANCHOR_ERRORS = 2.0, 1.37


@dataclass(frozen=True)
class Comparison:
    """The challenger against one rival, relative to the rival's value; a positive gain is better.

    lower, upper: the 95% interval of the gain. margin: the loss that is accepted.
    """

    gain: float
    error: float
    lower: float
    upper: float
    queries: int
    margin: float

    @property
    def state(self) -> State:
        """`not worse` or `worse` if the interval excludes the margin, else `undecided`."""
        if self.lower >= -self.margin:
            return "not worse"
        return "worse" if self.upper < -self.margin else "undecided"

    @property
    def detectable(self) -> float:
        """The smallest loss whose interval would exclude 0 in 80% of such nights."""
        return (_TWO_SIDED_95 + _POWER_80) * self.error

    def accepts(self, *, anchor: bool) -> bool:
        """Return whether the estimate is no worse than the margin.

        anchor: the rival does not change from night to night, so a loss against it is one of many
        nights. A loss of two margins must then be outside a one-sided 91% interval, too.
        """
        bound = self.gain - _ANCHOR_ERRORS * self.error
        return self.gain >= -self.margin and (not anchor or bound >= -_ANCHOR_MARGINS * self.margin)

    def times_more_data(self) -> float:
        """Return how many times the held-out queries would decide, 1 if they are enough.

        With them an equal challenger passes in 90% of the nights, and one that is two margins worse
        is refused in 90%.
        """
        return max(1.0, (self.error * _ONE_SIDED_90 / self.margin) ** 2)


def compare(metric: str, lead: Estimate, value: float, margin: float) -> Comparison:
    """Return the comparison. lead: challenger - rival in the metric. value: the rival's.

    A rival with the value 0 is compared by absolute differences.
    """
    scale = abs(value) or 1.0
    low, high = lead.lower / scale, lead.upper / scale
    gain = lead.value / scale
    if is_lower_better(metric):
        gain, low, high = -gain, -high, -low
    return Comparison(gain, lead.standard_error / scale, low, high, lead.queries, margin)


def describe(metric: str, comparison: Comparison, rival: str, days: int | None) -> str:
    """Return the comparison in one sentence. days: of the window, None if unknown."""
    c = comparison
    relation = {
        "not worse": f"{metric} is not worse than that of {rival}",
        "worse": f"{metric} is worse than that of {rival}",
        "undecided": f"{metric} against {rival} is undecided",
    }[c.state]
    text = (
        f"{relation}: {c.gain:+.2%} [{c.lower:+.2%}, {c.upper:+.2%}] with a margin of "
        f"{c.margin:.2%}, {c.queries:,} queries; a loss of {c.detectable:.2%} would have been "
        "detected"
    )
    more = c.times_more_data() if c.margin > 0 else 0.0
    if c.state == "undecided" and 1 < more < float("inf"):
        text += f"; about {ceil(c.queries * more):,} queries"
        text += f" or {ceil(days * more):,} days" if days else ""
        text += " would decide"
    return text
