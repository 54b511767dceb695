"""Control characters of names and messages are printed as escapes, markup as text."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import subprocess

import pytest
from rich.table import Table

from ulr.cli.escape import escape
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import on_screen, print_document, print_error, print_line, print_table

HOSTILE = "desk\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202etop\r[red]x[/red][link=http://h]y[/link]"
SHOWN = (
    "desk\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\x7f\\u202etop\\r[red]x[/red][link=http://h]y[/link]"
)


@contextlib.contextmanager
def terminal():
    """Redirect stdout and stderr to a terminal; yield a list that gets all of its output."""
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "cols", "200"], stdin=theirs, check=True)
    output: list[str] = []
    with pytest.MonkeyPatch.context() as patch, os.fdopen(theirs, "w") as screen:
        patch.setenv("TERM", "xterm-256color")
        patch.setenv("NO_COLOR", "1")
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
            yield output
        output.append(os.read(ours, 1 << 20).decode())


def table() -> Table:
    table = Table("segment", title=HOSTILE)
    table.add_row(HOSTILE + "\nnext")
    return table


def test_escape_keeps_lines_and_other_languages():
    assert escape("größe\t日本\n" + HOSTILE) == "größe\t日本\n" + SHOWN


def test_lines_errors_and_plain_tables_are_escaped():
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        print_line(f"segment {HOSTILE}")
        print_table(table())
        print_error(f"segment {HOSTILE}\nsecond line")
    assert out.getvalue().splitlines() == [f"segment {SHOWN}", SHOWN, "segment", SHOWN + "\\nnext"]
    assert err.getvalue() == f"ulr: segment {SHOWN}\\nsecond line\n"


def test_tables_lines_and_bars_on_a_terminal_are_escaped():
    with terminal() as output:
        print_table(table())
        with TERMINAL.steps(HOSTILE, 2, "steps") as step, step(None):
            print_line(HOSTILE)
    (text,) = output
    assert text.count(SHOWN) >= 3
    for sequence in ("\x1b]0;", "\x1b[2J", "\x9b", "\x07", "\x7f", "\u202e"):
        assert sequence not in text


def test_a_json_document_has_no_control_characters(capfd):
    with on_screen("escape", quiet=False, json=True):
        print_document({"segment": HOSTILE})
    out, _ = capfd.readouterr()
    assert json.loads(out) == {"segment": HOSTILE}
    assert out.isascii()
    assert all(character.isprintable() or character == "\n" for character in out)
