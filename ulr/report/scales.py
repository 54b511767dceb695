"""From values to places on a drawing, and which values deserve a tick."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """value low..high to place start..end, straight or by its logarithm."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Where it is; what lies outside is drawn at the edge."""
        low, high, value = (self._bent(v) for v in (self.low, self.high, value))
        part = (value - low) / (high - low)
        return self.start + min(max(part, 0.0), 1.0) * (self.end - self.start)

    def _bent(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.log else value

    def ticks(self, wanted: int = 5) -> list[float]:
        """Round values inside."""
        return _log_ticks(self.low, self.high) if self.log else _ticks(self.low, self.high, wanted)


def span(
    values: Iterable[float], *, around: float | None = None, pad: float = 0.06
) -> tuple[float, float]:
    """Lowest and highest with a little room; `around` is always inside."""
    found = [v for v in values if math.isfinite(v)] + ([] if around is None else [around])
    low, high = min(found, default=0.0), max(found, default=1.0)
    if low == high:
        low, high = low - (abs(low) or 1.0) / 10, high + (abs(high) or 1.0) / 10
    room = (high - low) * pad
    return low - room, high + room


def tick_text(value: float) -> str:
    """Short, with a real minus."""
    if value and abs(value) >= 1e5:
        return f"{value / 1e6:g}M" if abs(value) >= 1e6 else f"{value / 1e3:g}k"
    return f"{value:.10g}".replace("-", "−")


def _ticks(low: float, high: float, wanted: int) -> list[float]:
    raw = (high - low) / max(wanted, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= raw * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(n * step, 12) for n in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1, 2, 5), (1, 3), (1,)):
        found = [s * 10.0**d for d in decades for s in steps]
        inside = [round(v, 12) for v in found if low * 0.999 <= v <= high * 1.001]
        if len(inside) <= 7:
            break
    return inside
