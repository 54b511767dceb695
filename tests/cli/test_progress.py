from __future__ import annotations

import contextlib
import os
import pty
import threading
import time

import pytest

from ulr.cli.pace import Pace, left_of
from ulr.cli.progress import steps, watched, watched_rounds
from ulr.cli.terminal import say


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@contextlib.contextmanager
def terminal():
    """A terminal for the block; the list gets all that it was sent."""
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


def test_equal_parts_take_equally_long():
    assert left_of(0, 8, 5.0) is None
    assert left_of(2, 8, 5.0) == 5.0 / 2 * 6


def test_the_time_left_is_told_once_every_kind_to_come_has_been_seen():
    clock = Clock()
    pace = Pace(["pairs", "train", "pairs", "train"], clock)
    for kind, seconds in (("pairs", 10.0), ("train", 30.0)):
        assert pace.left() is None
        number = pace.begin(kind)
        clock.now += seconds
        pace.end(number)
    assert pace.left() == 10.0 + 30.0
    pace.begin("pairs")
    clock.now += 4.0
    assert pace.left() == (10.0 - 4.0) + 30.0


def test_steps_that_run_at_once_share_the_time_left():
    clock = Clock()
    pace = Pace(["one"] * 4, clock)
    first, second = pace.begin("one"), pace.begin("one")
    clock.now += 6.0
    pace.end(first)
    pace.end(second)
    pace.begin("one")
    pace.begin("one")
    assert pace.left() == 6.0


def test_a_skipped_step_says_nothing_about_the_others():
    pace = Pace(["date", "date"], Clock())
    pace.end(pace.begin("date"), skipped=True)
    assert (pace.done, pace.left()) == (1, None)


def test_sparks_tasks_are_shown_with_the_time_left_of_their_stage(spark):
    def slow(batches):
        time.sleep(0.5)
        yield from batches

    with terminal() as seen, steps("days", ["day", "day"], "days") as step, step("day", "day 1"):
        say("meanwhile")
        spark.range(0, 6, 1, 6).mapInArrow(slow, "id bigint").collect()
    text = b"".join(seen).decode()
    assert "0/2 days" in text
    assert "2/6 tasks" in text
    assert "this Spark stage: about 0:00:0" in text
    assert text.count("meanwhile") == 1


def test_rounds_are_shown_with_the_time_that_is_left_at_most():
    with terminal() as seen, watched_rounds("train", 10, "pair_loss") as tell:
        for number in (1, 2, 3):
            tell(number, 0.5)
            time.sleep(0.4)
    text = b"".join(seen).decode()
    assert "pair_loss 0.50000" in text
    assert "3/10 rounds" in text
    assert "at most 0:00:" in text


def test_nobody_watches_a_pipe(capsys):
    with watched("spark"), watched_rounds("train", 10, "loss") as tell:
        tell(1, None)
    assert capsys.readouterr() == ("", "")
