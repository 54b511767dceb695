from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

import pytest

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


class ChangedSocket:
    """A socket that changes one byte of everything that is sent."""

    def __init__(self, sock: socket.socket, change: Callable[[bytes], bytes]) -> None:
        self._sock, self._change = sock, change

    def sendall(self, content: bytes) -> None:
        self._sock.sendall(self._change(content))

    def close(self) -> None:
        self._sock.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda frame: frame[:8] + bytes([frame[8] ^ 1]) + frame[9:],
        lambda frame: frame + frame,
        lambda frame: b"\xff\xff\xff\xff" + frame[4:],
        lambda frame: b'{"iteration": 99}\n',
    ],
    ids=["changed", "replayed", "huge", "plain"],
)
def test_events_that_were_changed_on_the_way_are_dropped(change):
    events = []
    with listen_for_events("127.0.0.1", "token", events.append) as port:
        sender = EventSender(("127.0.0.1", port), "token")
        sock = sender._socket
        sender._socket = ChangedSocket(sock, change)
        sender.send({"iteration": 1})
        sock.settimeout(60.0)
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(1) == b""  # the driver closes the connection
        sender.close()
    assert events in ([], [{"iteration": 1}])
    assert bool(events) == (change(b"0123456789") == b"01234567890123456789")


def test_idle_connections_do_not_keep_a_worker_from_sending_events():
    events = []
    with listen_for_events("127.0.0.1", "token", events.append) as port:
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        sender = EventSender(("127.0.0.1", port), "token")
        sender.send({"iteration": 1})
        wait_until(lambda: events)
        for sock in idle:
            sock.settimeout(60.0)
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(1) == b""
            sock.close()
        sender.send({"iteration": 2})
        wait_until(lambda: len(events) == 2)
        sender.close()
