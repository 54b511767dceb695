"""Resident memory of this process, as Linux tells it; elsewhere, as much as can be known."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident_bytes() -> int:
    """What is resident now."""
    return _kilobytes("VmRSS:") * 1024


def peak_bytes() -> int:
    """The most that was resident since `forget_peak`, or since the process began."""
    return (_kilobytes("VmHWM:") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024


def forget_peak() -> None:
    """Begin anew: Spark's Python workers had other tasks before this one."""
    with contextlib.suppress(OSError):
        _CLEAR.write_text("5")


def _kilobytes(name: str) -> int:
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return 0
