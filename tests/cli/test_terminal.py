from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import pty
import subprocess
import warnings

import pytest
from rich.table import Table

from ulr.cli.terminal import (
    on_screen,
    plain,
    print_document,
    print_error,
    print_line,
    print_table,
    progress_console,
)
from ulr.engine.quiet import log_path


def numbers() -> Table:
    table = Table("name", title="a title")
    table.add_column("value", justify="right")
    table.add_row("one", "1")
    table.add_row("a hundred", "100")
    return table


@contextlib.contextmanager
def redirected(file):
    with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        yield


def on_a_terminal(columns: int, **environment: str) -> str:
    """Return the output of `print_table` on a terminal of that width."""
    ours, theirs = pty.openpty()
    with pytest.MonkeyPatch.context() as patch, os.fdopen(theirs, "w") as screen:
        for name in ("NO_COLOR", "COLUMNS", "FORCE_COLOR"):
            patch.delenv(name, raising=False)
        for name, value in {"TERM": "xterm-256color", **environment}.items():
            patch.setenv(name, value)
        subprocess.run(["stty", "cols", str(columns)], stdin=theirs, check=True)
        with redirected(screen):
            assert progress_console() is not None
            print_table(numbers())
        return os.read(ours, 65536).decode()


def test_a_table_is_plain_columns_in_a_pipe():
    expected = "a title\nname       value\none            1\na hundred    100"
    assert plain(numbers()) == expected
    with redirected(io.StringIO()) as _, contextlib.redirect_stdout(io.StringIO()) as pipe:
        print_table(numbers())
        assert progress_console() is None
    assert pipe.getvalue() == expected + "\n"


def test_a_table_is_drawn_on_a_terminal_in_colour_unless_no_color_is_set():
    assert "│ a hundred │" in on_a_terminal(80)
    assert "\x1b[" in on_a_terminal(80)
    drawn = on_a_terminal(80, NO_COLOR="1")
    assert "│ a hundred │" in drawn
    assert "\x1b[3" not in drawn.replace("\x1b[3m", "")  # 3m is italics, 3Nm a colour


def test_a_table_wider_than_the_terminal_is_not_cut():
    table = on_a_terminal(8)
    assert "│" not in table
    assert "a hundred    100" in table


def test_output_of_libraries_and_child_processes_goes_to_the_log(capfd):
    with on_screen("noise", quiet=False, json=True) as log:
        print("python")
        os.write(1, b"a library in C\n")
        os.write(2, b"and its errors\n")
        subprocess.run(["sh", "-c", "echo a child; echo its errors >&2"], check=True)
        warnings.warn("a warning", UserWarning, stacklevel=1)
        logging.getLogger("mlflow.x").warning("a logger")
        print_line("for people")
        print_document({"half": 0.5, "nothing": float("nan"), "no end": float("inf")})
        print_error("one line")
    out, err = capfd.readouterr()
    assert json.loads(out) == {"half": 0.5, "nothing": None, "no end": "inf"}
    assert err == "ulr: one line\n"
    kept = log.read_text()
    log.unlink()
    for words in ("python", "a library in C", "and its errors", "a child", "its errors"):
        assert words in kept
    print("after")
    assert capfd.readouterr().out == "after\n"


def test_a_closed_pipe_does_not_stop_the_command():
    ours, theirs = os.pipe()
    os.close(ours)
    with os.fdopen(theirs, "w") as pipe, contextlib.redirect_stdout(pipe):
        print_line("one")
        print_line("two")


def test_old_logs_are_removed_and_new_ones_kept():
    old, new = log_path("old"), log_path("new")
    for log in (old, new):
        log.write_text("words")
    os.utime(old, (0, 0))
    log_path("another")
    assert (old.exists(), new.exists()) == (False, True)
    new.unlink()


def test_an_empty_log_is_removed():
    with on_screen("silent", quiet=True, json=False) as log:
        print_line("unheard")
    assert not log.exists()
