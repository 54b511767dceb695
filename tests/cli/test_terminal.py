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

from ulr.cli.terminal import answer, complain, on_screen, plain, progress_console, say, show
from ulr.engine.quiet import log_path


def numbers() -> Table:
    table = Table("name", title="a title")
    table.add_column("value", justify="right")
    table.add_row("one", "1")
    table.add_row("a hundred", "100")
    return table


@contextlib.contextmanager
def pretending(file):
    with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
        yield


def on_a_terminal(columns: int, **environment: str) -> str:
    """What `show` writes to a terminal of that width."""
    ours, theirs = pty.openpty()
    with pytest.MonkeyPatch.context() as patch, os.fdopen(theirs, "w") as screen:
        for name in ("NO_COLOR", "COLUMNS", "FORCE_COLOR"):
            patch.delenv(name, raising=False)
        for name, value in {"TERM": "xterm-256color", **environment}.items():
            patch.setenv(name, value)
        subprocess.run(["stty", "cols", str(columns)], stdin=theirs, check=True)
        with pretending(screen):
            assert progress_console() is not None
            show(numbers())
        return os.read(ours, 65536).decode()


def test_a_table_is_plain_columns_in_a_pipe():
    expected = "a title\nname       value\none            1\na hundred    100"
    assert plain(numbers()) == expected
    with pretending(io.StringIO()) as _, contextlib.redirect_stdout(io.StringIO()) as pipe:
        show(numbers())
        assert progress_console() is None
    assert pipe.getvalue() == expected + "\n"


def test_a_table_is_drawn_on_a_terminal_in_colour_unless_told_otherwise():
    assert "│ a hundred │" in on_a_terminal(80)
    assert "\x1b[" in on_a_terminal(80)
    drawn = on_a_terminal(80, NO_COLOR="1")
    assert "│ a hundred │" in drawn
    assert "\x1b[3" not in drawn.replace("\x1b[3m", "")  # 3m is italics, 3Nm a colour


def test_a_table_wider_than_the_terminal_is_not_cut():
    table = on_a_terminal(8)
    assert "│" not in table
    assert "a hundred    100" in table


def test_what_others_print_goes_to_the_log_and_not_to_the_screen(capfd):
    with on_screen("noise", quiet=False, json=True) as log:
        print("python")
        os.write(1, b"a library in C\n")
        os.write(2, b"and its errors\n")
        subprocess.run(["sh", "-c", "echo a child; echo its errors >&2"], check=True)
        warnings.warn("a warning", UserWarning, stacklevel=1)
        logging.getLogger("mlflow.x").warning("a logger")
        say("for people")
        answer({"half": 0.5, "nothing": float("nan"), "no end": float("inf")})
        complain("one line")
    out, err = capfd.readouterr()
    assert json.loads(out) == {"half": 0.5, "nothing": None, "no end": "inf"}
    assert err == "ulr: one line\n"
    kept = log.read_text()
    log.unlink()
    for words in ("python", "a library in C", "and its errors", "a child", "its errors"):
        assert words in kept
    print("after")
    assert capfd.readouterr().out == "after\n"


def test_a_reader_that_left_does_not_stop_the_work():
    ours, theirs = os.pipe()
    os.close(ours)
    with os.fdopen(theirs, "w") as pipe, contextlib.redirect_stdout(pipe):
        say("one")
        say("two")


def test_old_logs_are_removed_and_new_ones_kept():
    old, new = log_path("old"), log_path("new")
    for log in (old, new):
        log.write_text("words")
    os.utime(old, (0, 0))
    log_path("another")
    assert (old.exists(), new.exists()) == (False, True)
    new.unlink()


def test_a_log_that_nobody_wrote_to_is_not_left_behind():
    with on_screen("silent", quiet=True, json=False) as log:
        say("unheard")
    assert not log.exists()
