"""Extract the examples of a help text."""

from __future__ import annotations

import shlex


def examples(text: str) -> list[tuple[str, list[str]]]:
    """Return the stage and the arguments of every indented line that is a command."""
    lines = [line.strip() for line in text.splitlines() if line.startswith("  ulr ")]
    commands = [shlex.split(line, comments=True) for line in lines]
    return [(stage, argv) for _, stage, *argv in commands]
