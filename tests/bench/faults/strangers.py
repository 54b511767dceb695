"""Connections to a listening worker by clients that do not have the token."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Callable

_CONNECTIONS = 200

Stranger = Callable[[tuple[str, int], random.Random], list[socket.socket]]


def _idle(address: tuple[str, int], rng: random.Random) -> list[socket.socket]:
    return [socket.create_connection(address) for _ in range(_CONNECTIONS)]


def _renewed_idle(address: tuple[str, int], rng: random.Random) -> list[socket.socket]:
    """Connect again and again, so that there are always idle connections."""
    sockets = _idle(address, rng)

    def renew() -> None:
        while True:
            with contextlib.suppress(OSError):
                sockets.append(socket.create_connection(address, 0.5))
            time.sleep(0.002)

    threading.Thread(target=renew, daemon=True).start()
    return sockets


def _sending(content: bytes, sock: socket.socket) -> socket.socket:
    with contextlib.suppress(OSError):
        sock.sendall(content)
    return sock


def _garbage(address: tuple[str, int], rng: random.Random) -> list[socket.socket]:
    return [_sending(rng.randbytes(rng.randrange(1, 5000)), sock) for sock in _idle(address, rng)]


def _http(address: tuple[str, int], rng: random.Random) -> list[socket.socket]:
    request = b"GET / HTTP/1.1\r\nHost: worker\r\n\r\n"
    return [_sending(request, sock) for sock in _idle(address, rng)]


def _half_greeting(address: tuple[str, int], rng: random.Random) -> list[socket.socket]:
    return [_sending(b"ulrtrain\x00\x01", sock) for sock in _idle(address, rng)]


def _slow_greeting(address: tuple[str, int], rng: random.Random) -> list[socket.socket]:
    """Send one byte of a greeting from time to time."""
    sockets = _idle(address, rng)

    def send() -> None:
        for byte in b"ulrtrain" + bytes(22):
            for sock in sockets:
                _sending(bytes([byte]), sock)
            time.sleep(0.4)

    threading.Thread(target=send, daemon=True).start()
    return sockets


def _false_rank(address: tuple[str, int], rng: random.Random) -> list[socket.socket]:
    """Send a valid greeting of rank 1, and a wrong proof."""
    greeting = b"ulrtrain" + bytes([0, 1, 0, 0, 0, 2]) + os.urandom(16)
    return [_sending(greeting + os.urandom(32), sock) for sock in _idle(address, rng)]


STRANGERS: dict[str, Stranger] = {
    "idle": _idle, "renewed-idle": _renewed_idle, "garbage": _garbage, "http": _http,
    "half-greeting": _half_greeting, "slow-greeting": _slow_greeting, "false-rank": _false_rank,
}  # fmt: skip
