"""Draw `terminal.svg`: run commands in a pseudo-terminal and export their output.

python docs/terminal.py
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
ULR = Path(sys.executable).with_name("ulr")  # the command installed beside this interpreter
COLUMNS, ROWS = 112, 50
COMMANDS = (
    "ulr doctor",
    "ulr simulate",
    "ulr groups --date 2026-01-01..2026-01-02",
    "ulr nightly --date 2026-01-03",
    "ulr registry list",
)


def output_of(command: str, folder: str) -> str:
    """Return the text that a command prints to a terminal, without its progress bars."""
    parent, child = pty.openpty()
    size = ["stty", "cols", str(COLUMNS), "rows", str(ROWS)]
    subprocess.run(size, stdin=child, check=True)
    argv = [str(ULR), *command.split()[1:]]
    environ = os.environ | {"TERM": "xterm-256color", "PYTHONPATH": str(HERE.parent)}
    with subprocess.Popen(
        argv, stdout=child, stderr=subprocess.PIPE, cwd=folder, env=environ
    ) as process:
        os.close(child)
        output = b""
        while chunk := read(parent):
            output += chunk
        error = process.stderr.read().decode()
    os.close(parent)
    if process.returncode:
        raise SystemExit(f"{command}: {error}")
    return output.decode().replace("\r\n", "\n")


def read(terminal: int) -> bytes:
    """Return the next bytes, or none if the other end is closed."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def main() -> None:
    """Run the commands and write the picture."""
    with Path(os.devnull).open("w") as null:
        console = Console(record=True, width=COLUMNS, file=null, force_terminal=True)
        with tempfile.TemporaryDirectory() as folder:
            for command in COMMANDS:
                console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
                console.print(Text.from_ansi(output_of(command, folder)))
    picture = console.export_svg(title="ulr", unique_id="terminal")
    # No fonts from the network: the viewer's monospace font is used.
    picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
    (HERE / "terminal.svg").write_text(picture)


if __name__ == "__main__":
    main()
