"""Events from the first worker to the driver while training runs: JSON in encrypted frames.

Telemetry never disturbs training: events are dropped if the driver cannot be reached, and a
connection with a frame that is too long, incomplete or not authentic is closed.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ulr.training.distributed import handshake
from ulr.training.distributed.handshake import HandshakeFailed, secret_for
from ulr.training.distributed.rendezvous import HANDSHAKE_S, Address, Listener
from ulr.training.distributed.seal import FrameRejected, Keys, Sealer

Event = dict[str, Any]
EventCallback = Callable[[Event], None]
_DRIVER, _WORKER, _SIZE = 0, 1, 2
_HEADER = struct.Struct("!I")  # bytes of the sealed event
MAX_EVENT_BYTES = 64 << 10
_FRAME_S = 5.0  # from the header of a frame to its end


@contextlib.contextmanager
def listen_for_events(host: str, token: str, on_event: EventCallback) -> Iterator[int]:
    """Yield a port, and call `on_event` on another thread with every event received there."""
    listener = Listener(host)
    listener.serve(partial(_authenticate, token=token), partial(_receive_events, on_event=on_event))
    try:
        yield listener.address[1]
    finally:
        listener.close()


def _authenticate(sock: socket.socket, token: str) -> Keys:
    deadline = time.monotonic() + HANDSHAKE_S
    _, keys = handshake.respond(
        sock, secret_for(token, 0), rank=_DRIVER, size=_SIZE, deadline=deadline
    )
    handshake.accept(sock, deadline)
    return keys


def _receive_events(sock: socket.socket, keys: Keys, on_event: EventCallback) -> None:
    opener = Sealer(keys.receive)
    with sock, contextlib.suppress(HandshakeFailed, FrameRejected, OSError, ValueError):
        while True:
            sock.settimeout(None)  # an iteration may take long
            first = sock.recv(1)
            deadline = time.monotonic() + _FRAME_S
            header = first + handshake.receive(sock, _HEADER.size - len(first), deadline)
            (size,) = _HEADER.unpack(header)
            if size > MAX_EVENT_BYTES:
                return
            content = opener.open(header, handshake.receive(sock, size, deadline))
            on_event(json.loads(bytes(content)))


class EventSender:
    """The worker's side of the connection. Without an address it does nothing."""

    def __init__(self, address: Address | None, token: str) -> None:
        self._socket: socket.socket | None = None
        if address is None:
            return
        deadline = time.monotonic() + HANDSHAKE_S
        with contextlib.suppress(HandshakeFailed, OSError):
            sock = socket.create_connection(address, HANDSHAKE_S)
            keys = handshake.initiate(sock, secret_for(token, 0), rank=_WORKER, to=_DRIVER,
                                      size=_SIZE, deadline=deadline)  # fmt: skip
            sock.settimeout(1.0)
            self._socket, self._sealer = sock, Sealer(keys.send)

    def send(self, event: Event) -> None:
        """Send an event; after an error, drop it and all later ones."""
        if self._socket is None:
            return
        try:
            content = json.dumps(event).encode()
            header = _HEADER.pack(len(content) + self._sealer.overhead)
            self._socket.sendall(header + self._sealer.seal(header, content))
        except OSError:
            self.close()

    def close(self) -> None:
        """Disconnect."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
