"""News from the first worker to the driver while training runs: one JSON line an event.

For people who watch, so it never disturbs training: a worker that cannot reach the driver, or
whose driver does not listen, goes on in silence.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ulr.training.distributed.handshake import Refused, answer, call, secret_for, welcome

Event = dict[str, Any]
REACH_S = 5.0
_DRIVER, _WORKER, _BOTH = 0, 1, 2


@contextlib.contextmanager
def listening(host: str, token: str, hear: Callable[[Event], None]) -> Iterator[int]:
    """The port where the driver listens until the block ends; `hear` runs on another thread."""
    family, kind, proto, _, where = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, proto) as server:
        server.bind(where)
        server.listen(8)

        def serve() -> None:
            with contextlib.suppress(OSError):  # closed at the end of the block
                while True:
                    sock, _ = server.accept()
                    threading.Thread(
                        target=_hear_out, args=(sock, token, hear), daemon=True
                    ).start()

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield server.getsockname()[1]
        finally:
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)


def _hear_out(sock: socket.socket, token: str, hear: Callable[[Event], None]) -> None:
    by = time.monotonic() + REACH_S
    with sock, contextlib.suppress(Refused, OSError, ValueError):
        answer(sock, secret_for(token, 0), rank=_DRIVER, size=_BOTH, by=by)
        welcome(sock, by)
        sock.settimeout(None)
        with sock.makefile("r", encoding="utf-8") as lines:
            for line in lines:
                hear(json.loads(line))


class Reporter:
    """The worker's end."""

    def __init__(self, address: tuple[str, int] | None, token: str) -> None:
        self._socket: socket.socket | None = None
        if address is None:
            return
        by = time.monotonic() + REACH_S
        with contextlib.suppress(Refused, OSError):
            sock = socket.create_connection(address, REACH_S)
            call(sock, secret_for(token, 0), rank=_WORKER, to=_DRIVER, size=_BOTH, by=by)
            sock.settimeout(1.0)
            self._socket = sock

    def tell(self, event: Event) -> None:
        """Send an event, or give up talking."""
        if self._socket is None:
            return
        try:
            self._socket.sendall((json.dumps(event) + "\n").encode())
        except OSError:
            self.close()

    def close(self) -> None:
        """No more news."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
