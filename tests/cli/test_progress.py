from __future__ import annotations

import contextlib
import os
import pty
import threading
import time
from types import SimpleNamespace

import pyarrow as pa
import pytest

from ulr.cli import progress
from ulr.cli.progress import TERMINAL
from ulr.engine.interface import Items

# Finished tasks and all tasks at each poll; None: nothing runs.
POLLS = [None, (2, 6), (5, 6), (0, 4)]


@contextlib.contextmanager
def terminal():
    """Give the block a terminal; yield the list of bytes it receives."""
    ours, theirs = pty.openpty()
    seen: list[bytes] = []

    def read():
        with contextlib.suppress(OSError):  # the other end is closed
            while True:
                seen.append(os.read(ours, 65536))

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(theirs, "w") as screen, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "120")
        with contextlib.redirect_stderr(screen), contextlib.redirect_stdout(screen):
            yield seen
    reader.join()
    os.close(ours)


def wait_and_return(items):
    time.sleep(0.3)
    yield pa.RecordBatch.from_pydict({"n": items})


@pytest.mark.parametrize("name", ["pool", pytest.param("spark_engine", marks=pytest.mark.spark)])
def test_steps_tasks_and_iterations_are_drawn_on_a_terminal(name, request, monkeypatch):
    engine = request.getfixturevalue(name)
    monkeypatch.setattr(TERMINAL, "engine", engine)
    with terminal() as seen, TERMINAL.steps("days", 2, "days") as step:
        for day in (1, 2):
            with step(f"day {day}"):
                TERMINAL.line("between the bars")
                engine.map(Items(range(6)), wait_and_return)
        with TERMINAL.iterations("train", 10, "pair_loss") as on_iteration:
            for iteration in (1, 2, 3):
                on_iteration(iteration, 0.5)
    text = b"".join(seen).decode()
    for drawn in ("0/2 days", "day 1", "day 2", "/6 tasks", "train pair_loss 0.50000",
                  "3/10 iterations"):  # fmt: skip
        assert drawn in text
    assert text.count("between the bars") == 2


def test_a_single_step_has_no_bar_of_steps():
    with terminal() as seen, TERMINAL.steps("days", 1, "days") as step, step(None):
        TERMINAL.line("result")
    text = b"".join(seen).decode()
    assert "result" in text
    assert "days" not in text


def test_the_tasks_of_the_engine_are_followed():
    class Bars:
        def __init__(self):
            self.updates = []

        def reset(self, bar, total):
            self.updates.append(("reset", total))

        def update(self, bar, completed):
            self.updates.append(("completed", completed))

    class Done:
        polls = iter([False] * len(POLLS) + [True])

        def wait(self, seconds):
            return next(self.polls)

    polls, bars = iter(POLLS), Bars()
    progress._follow(SimpleNamespace(progress=lambda: next(polls)), bars, 0, Done())
    assert bars.updates == [("reset", 6), ("completed", 2), ("completed", 5),
                            ("reset", 4), ("completed", 0)]  # fmt: skip


def test_nothing_is_drawn_into_a_pipe(capsys):
    with TERMINAL.tasks("groups"), TERMINAL.iterations("train", 10, "loss") as on_iteration:
        on_iteration(1, None)
    assert capsys.readouterr() == ("", "")
