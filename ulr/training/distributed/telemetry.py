"""Events from the first worker to the driver while training runs, one JSON line each.

Telemetry never disturbs training: events are dropped if the driver cannot be reached.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ulr.training.distributed import handshake
from ulr.training.distributed.handshake import HandshakeFailed, secret_for
from ulr.training.distributed.rendezvous import HANDSHAKE_S, Address, Listener

Event = dict[str, Any]
EventCallback = Callable[[Event], None]
_DRIVER, _WORKER, _SIZE = 0, 1, 2


@contextlib.contextmanager
def listen_for_events(host: str, token: str, on_event: EventCallback) -> Iterator[int]:
    """Yield a port, and call `on_event` on another thread with every event received there."""
    listener = Listener(host)
    listener.serve(partial(_receive_events, token=token, on_event=on_event))
    try:
        yield listener.address[1]
    finally:
        listener.close()


def _receive_events(sock: socket.socket, token: str, on_event: EventCallback) -> None:
    deadline = time.monotonic() + HANDSHAKE_S
    with sock, contextlib.suppress(HandshakeFailed, OSError, ValueError):
        handshake.respond(sock, secret_for(token, 0), rank=_DRIVER, size=_SIZE, deadline=deadline)
        handshake.accept(sock, deadline)
        sock.settimeout(None)
        with sock.makefile("r", encoding="utf-8") as lines:
            for line in lines:
                on_event(json.loads(line))


class EventSender:
    """The worker's side of the connection. Without an address it does nothing."""

    def __init__(self, address: Address | None, token: str) -> None:
        self._socket: socket.socket | None = None
        if address is None:
            return
        deadline = time.monotonic() + HANDSHAKE_S
        with contextlib.suppress(HandshakeFailed, OSError):
            sock = socket.create_connection(address, HANDSHAKE_S)
            handshake.initiate(sock, secret_for(token, 0), rank=_WORKER, to=_DRIVER, size=_SIZE,
                               deadline=deadline)  # fmt: skip
            sock.settimeout(1.0)
            self._socket = sock

    def send(self, event: Event) -> None:
        """Send an event; after an error, drop it and all later ones."""
        if self._socket is None:
            return
        try:
            self._socket.sendall((json.dumps(event) + "\n").encode())
        except OSError:
            self.close()

    def close(self) -> None:
        """Disconnect."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
