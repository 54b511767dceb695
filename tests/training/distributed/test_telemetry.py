from __future__ import annotations

import socket
import time

from ulr.training.checkpoint import Checkpoints, TrainState
from ulr.training.distributed.telemetry import Reporter, listening


def wait_for(condition, seconds=10.0):
    by = time.monotonic() + seconds
    while not condition() and time.monotonic() < by:
        time.sleep(0.02)
    assert condition()


def test_the_driver_hears_every_event_of_a_worker_with_the_right_token():
    heard = []
    with listening("127.0.0.1", "token", heard.append) as port:
        reporter = Reporter(("127.0.0.1", port), "token")
        for number in range(3):
            reporter.tell({"round": number})
        wait_for(lambda: len(heard) == 3)
        reporter.close()
    assert [event["round"] for event in heard] == [0, 1, 2]


def test_strangers_are_not_heard_and_do_not_disturb():
    heard = []
    with (
        listening("127.0.0.1", "token", heard.append) as port,
        socket.create_connection(("127.0.0.1", port)) as stranger,
    ):
        stranger.sendall(b'{"round": 99}\n' * 10)
        Reporter(("127.0.0.1", port), "wrong").tell({"round": 98})
        reporter = Reporter(("127.0.0.1", port), "token")
        reporter.tell({"round": 1})
        wait_for(lambda: heard)
        reporter.close()
    assert heard == [{"round": 1}]


def test_a_worker_that_cannot_reach_the_driver_goes_on_in_silence():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        reporter = Reporter(closed.getsockname(), "token")
    reporter.tell({"round": 1})
    Reporter(None, "token").tell({"round": 1})


def test_a_checkpoint_of_other_inputs_is_not_taken_up(tmp_path):
    mine = Checkpoints(str(tmp_path), "method=joint", "abc")
    other = Checkpoints(str(tmp_path), "method=joint", "def")
    state = TrainState(num_iterations=5, model="text", history=(0.1, 1 / 3))
    mine.save(state)
    assert mine.load(None) == state
    assert other.load(None) == TrainState()
    other.sweep(keep_own=True)
    assert mine.load(None) == TrainState()
