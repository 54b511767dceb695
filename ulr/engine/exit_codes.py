"""How a process ended, in words."""

from __future__ import annotations

import signal

MEMORY_HINT = "the likely cause is too little memory, see `dmesg` and the limits of the container"


def describe_signal(code: int) -> str | None:
    """Return the signal in an exit code of Popen or a shell, as in "signal 15 (SIGTERM)"."""
    number = -code if code < 0 else code - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return None
    hint = f": {MEMORY_HINT}" if name == "SIGKILL" else ""
    return f"signal {number} ({name}){hint}"
