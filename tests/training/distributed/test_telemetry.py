from __future__ import annotations

import socket

from tests.support.waiting import wait_until
from ulr.training.distributed.telemetry import EventSender, listen_for_events


def test_the_driver_receives_every_event_of_a_worker_with_the_right_token():
    events = []
    with listen_for_events("127.0.0.1", "token", events.append) as port:
        sender = EventSender(("127.0.0.1", port), "token")
        for number in range(3):
            sender.send({"iteration": number})
        wait_until(lambda: len(events) == 3)
        sender.close()
    assert [event["iteration"] for event in events] == [0, 1, 2]


def test_events_of_strangers_are_ignored():
    events = []
    with (
        listen_for_events("127.0.0.1", "token", events.append) as port,
        socket.create_connection(("127.0.0.1", port)) as stranger,
    ):
        stranger.sendall(b'{"iteration": 99}\n' * 10)
        EventSender(("127.0.0.1", port), "wrong").send({"iteration": 98})
        sender = EventSender(("127.0.0.1", port), "token")
        sender.send({"iteration": 1})
        wait_until(lambda: events)
        sender.close()
    assert events == [{"iteration": 1}]


def test_without_a_driver_events_are_dropped():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        sender = EventSender(closed.getsockname(), "token")
    sender.send({"iteration": 1})
    EventSender(None, "token").send({"iteration": 1})
