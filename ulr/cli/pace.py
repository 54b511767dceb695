"""How long something will still take, told only where there is something to tell it from."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count

Clock = Callable[[], float]


def left_of(done: float, total: float, elapsed: float) -> float | None:
    """Seconds left of work in equal parts; None before the first is done."""
    return elapsed / done * (total - done) if done > 0 else None


class Pace:
    """Steps of several kinds: those to come take as long as those of their kind have taken.

    Threads may share one: steps at once in some, the display in another.
    """

    def __init__(self, kinds: Sequence[str], clock: Clock = time.monotonic) -> None:
        """kinds: one entry for every step, in any order."""
        self._clock, self._lock, self._numbers = clock, threading.Lock(), count()
        self._waiting = Counter(kinds)
        self._began: dict[int, tuple[str, float]] = {}
        self._took: dict[str, list[float]] = {}
        self.total, self.done = len(kinds), 0

    def begin(self, kind: str) -> int:
        """A step has begun; several may be under way."""
        with self._lock:
            number = next(self._numbers)
            self._waiting[kind] -= 1
            self._began[number] = (kind, self._clock())
            return number

    def end(self, number: int, *, skipped: bool = False) -> None:
        """It is done; what was skipped tells nothing about the others."""
        with self._lock:
            kind, began = self._began.pop(number)
            if not skipped:
                self._took.setdefault(kind, []).append(self._clock() - began)
            self.done += 1

    def left(self) -> float | None:
        """Seconds left; None while a kind that is to come has never been seen."""
        with self._lock:
            mean = {kind: sum(took) / len(took) for kind, took in self._took.items()}
            waiting = list(self._waiting.elements())
            if not mean.keys() >= {*waiting, *(kind for kind, _ in self._began.values())}:
                return None
            now = self._clock()
            begun = [max(mean[kind] - (now - began), 0.0) for kind, began in self._began.values()]
            return (sum(begun) + sum(mean[kind] for kind in waiting)) / max(len(begun), 1)
