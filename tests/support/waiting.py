"""Wait for a condition without depending on the speed of the machine."""

from __future__ import annotations

import time
from collections.abc import Callable

LIMIT_S = 240.0  # far above any expected time, and only ever spent by a test that fails


def wait_until(
    condition: Callable[[], object],
    message: str = "the condition did not become true",
    *,
    limit_s: float = LIMIT_S,
    interval_s: float = 0.02,
) -> None:
    """Poll until the condition is true; raise TimeoutError after the limit."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{message} within {limit_s:g} s")
        time.sleep(interval_s)
