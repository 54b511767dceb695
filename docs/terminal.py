"""Draws `terminal.svg`: real commands, run one after the other on a real terminal.

python .readme/terminal.py
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).resolve().parent
COLUMNS, ROWS = 112, 50
COMMANDS = (
    "ulr doctor",
    "ulr simulate",
    "ulr groups --date 2026-01-01..2026-01-02",
    "ulr nightly --date 2026-01-03",
    "ulr registry list",
)


def output_of(command: str, folder: str) -> str:
    """What a command prints to a terminal; its progress, which does not stay there, is left out."""
    ours, theirs = pty.openpty()
    size = ["stty", "cols", str(COLUMNS), "rows", str(ROWS)]
    subprocess.run(size, stdin=theirs, check=True)
    argv = [sys.executable, "-m", "ulr.cli", *command.split()[1:]]
    environ = os.environ | {"TERM": "xterm-256color", "PYTHONPATH": str(HERE.parent)}
    with subprocess.Popen(
        argv, stdout=theirs, stderr=subprocess.PIPE, cwd=folder, env=environ
    ) as ran:
        os.close(theirs)
        seen = b""
        while piece := read(ours):
            seen += piece
        complaint = ran.stderr.read().decode()
    os.close(ours)
    if ran.returncode:
        raise SystemExit(f"{command}: {complaint}")
    return seen.decode().replace("\r\n", "\n")


def read(terminal: int) -> bytes:
    """The next bytes; none when the other end is closed."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def main() -> None:
    """Run, and export what was printed."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True)
        with tempfile.TemporaryDirectory() as folder:
            for command in COMMANDS:
                console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
                console.print(Text.from_ansi(output_of(command, folder)))
    picture = console.export_svg(title="ulr", unique_id="terminal")
    # Fonts from elsewhere are not fetched: the reader's own monospace font is used.
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    (HERE / "terminal.svg").write_text(picture)


if __name__ == "__main__":
    main()
