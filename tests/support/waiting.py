"""Polling instead of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable

TIMEOUT_S = 120.0


def wait_for(condition: Callable[[], object]) -> None:
    """Return as soon as the condition holds; fail if it does not within two minutes."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"still false after {TIMEOUT_S:g} s"
        time.sleep(0.02)
