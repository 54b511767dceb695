"""Map values to coordinates, and choose the values that get a tick."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """A map from values low..high to coordinates start..end, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the coordinate; values outside low..high are drawn at the edge."""
        low, high, value = (self._transform(v) for v in (self.low, self.high, value))
        fraction = (value - low) / (high - low)
        return self.start + min(max(fraction, 0.0), 1.0) * (self.end - self.start)

    def _transform(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.log else value

    def ticks(self, number: int = 5) -> list[float]:
        """Return round values within low..high: about `number` of them, or at most 7 on a log."""
        return _log_ticks(self.low, self.high) if self.log else _ticks(self.low, self.high, number)


def padded_range(
    values: Iterable[float], *, include: float | None = None, padding: float = 0.06
) -> tuple[float, float]:
    """Return the lowest and the highest value with some padding; `include` is always inside."""
    finite = [v for v in values if math.isfinite(v)] + ([] if include is None else [include])
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    if low == high:
        low, high = low - (abs(low) or 1.0) / 10, high + (abs(high) or 1.0) / 10
    margin = (high - low) * padding
    return low - margin, high + margin


def date_ticks(first: float, last: float, number: int) -> dict[float, str]:
    """Return at most `number` dates within first..last, given as ordinals, with their labels."""
    days = last - first + 1
    step = next((s for s in (1, 2, 3, 4, 7, 14) if days / s <= number), None)
    if step is not None:
        dates = [dt.date.fromordinal(n) for n in range(int(first), int(last) + 1, step)]
        return {date.toordinal(): f"{date.day} {date:%b}" for date in dates}
    months = [date for n in range(int(first), int(last) + 1)
              if (date := dt.date.fromordinal(n)).day == 1]  # fmt: skip
    step = next(s for s in (1, 2, 3, 6, 12, 24, 60, 1200) if len(months) / s <= number)
    return {date.toordinal(): f"{date:%b %Y}" for date in months[::step]}


def tick_label(value: float) -> str:
    """Return a short label, with a typographic minus."""
    if abs(value) >= 1e3:
        return f"{value / 1e6:g}M" if abs(value) >= 1e6 else f"{value / 1e3:g}k"
    return f"{value:.10g}".replace("-", "−")


def _ticks(low: float, high: float, number: int) -> list[float]:
    smallest = (high - low) / max(number, 1)
    power = 10.0 ** math.floor(math.log10(smallest))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= smallest * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    inside: list[float] = []
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [factor * 10.0**decade for decade in decades for factor in factors]
        inside = [round(v, 12) for v in ticks if low * 0.999 <= v <= high * 1.001]
        if len(inside) <= 7:
            break
    return inside
