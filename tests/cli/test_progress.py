from __future__ import annotations

import contextlib
import os
import pty
import threading
from types import SimpleNamespace

import pyspark
import pytest

from ulr.cli import progress
from ulr.cli.progress import TERMINAL

# (stage, tasks, completed) at each poll; None: no active stage.
STAGE_INFOS = [
    None,
    SimpleNamespace(stageId=1, numTasks=6, numCompletedTasks=2),
    SimpleNamespace(stageId=1, numTasks=6, numCompletedTasks=5),
    SimpleNamespace(stageId=2, numTasks=4, numCompletedTasks=0),
]


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


def test_steps_spark_tasks_and_iterations_are_drawn_on_a_terminal(spark):
    with terminal() as seen, TERMINAL.steps("days", 2, "days") as step:
        for day in (1, 2):
            with step(f"day {day}"):
                TERMINAL.line("between the bars")
                spark.range(0, 6, 1, 6).mapInArrow(lambda batches: batches, "id bigint").collect()
        with TERMINAL.iterations("train", 10, "pair_loss") as on_iteration:
            for iteration in (1, 2, 3):
                on_iteration(iteration, 0.5)
    text = b"".join(seen).decode()
    for drawn in ("0/2 days", "day 1", "day 2", "tasks", "train pair_loss 0.50000",
                  "3/10 iterations"):  # fmt: skip
        assert drawn in text
    assert text.count("between the bars") == 2


def test_a_single_step_has_no_bar_of_steps():
    with terminal() as seen, TERMINAL.steps("days", 1, "days") as step, step(None):
        TERMINAL.line("result")
    text = b"".join(seen).decode()
    assert "result" in text
    assert "days" not in text


def test_spark_tasks_of_the_active_stage_are_followed():
    class Bars:
        def __init__(self):
            self.updates = []

        def reset(self, bar, total):
            self.updates.append(("reset", total))

        def update(self, bar, completed):
            self.updates.append(("completed", completed))

    class Done:
        polls = iter([False] * len(STAGE_INFOS) + [True])

        def wait(self, seconds):
            return next(self.polls)

    infos, bars = iter(STAGE_INFOS), Bars()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pyspark.SparkContext, "_active_spark_context", object())
        patch.setattr(progress, "_first_active", lambda context: next(infos))
        progress._follow(bars, 0, Done())
    assert bars.updates == [("reset", 6), ("completed", 2), ("completed", 5),
                            ("reset", 4), ("completed", 0)]  # fmt: skip


def test_nothing_is_drawn_into_a_pipe(capsys):
    with TERMINAL.spark_tasks("spark"), TERMINAL.iterations("train", 10, "loss") as on_iteration:
        on_iteration(1, None)
    assert capsys.readouterr() == ("", "")
