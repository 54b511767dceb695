"""How workers connect: each one listens, connects to lower ranks and accepts higher ranks.

The listening socket is bound to one address and closed as soon as all workers are connected. Anyone
may connect to it. A connection has to authenticate itself: it is closed if it sends nothing for
`handshake.FIRST_MESSAGE_S` or does not finish in HANDSHAKE_S. If too many are open, the oldest is
closed, so that idle connections do not exclude a worker, whose handshake takes milliseconds.
"""

from __future__ import annotations

import contextlib
import errno
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from ulr.errors import TemporaryFailure, UserError
from ulr.training.distributed import handshake
from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.handshake import HandshakeFailed
from ulr.training.distributed.peer import Connection, PeerLost
from ulr.training.distributed.seal import Keys

Address = tuple[str, int]
Identity = TypeVar("Identity")
HANDSHAKE_S = 5.0
MAX_HANDSHAKES = 64  # at the same time
_RETRY_S = 0.05


class Listener:
    """A listening socket on one address, IPv4 or IPv6. Port 0 selects a free port."""

    def __init__(self, host: str, port: int = 0) -> None:
        try:
            family, kind, proto, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            self._socket = socket.socket(family, kind, proto)
            self._socket.bind(address)
        except OSError as error:
            failure = TemporaryFailure if error.errno == errno.EADDRINUSE else UserError
            raise failure(
                f"cannot listen on {host} port {port}: {error.strerror or error}; "
                "choose an address of this machine and a free port (0: any)"
            ) from None
        self._socket.listen(128)
        self.address: Address = (host, self._socket.getsockname()[1])

    def close(self) -> None:
        """Stop listening. Connections that were accepted stay open."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # close alone would not wake `accept`
        self._socket.close()

    def serve(
        self,
        authenticate: Callable[[socket.socket], Identity],
        on_connected: Callable[[socket.socket, Identity], None],
    ) -> None:
        """Start authenticating every new connection on a thread, until closed.

        authenticate: returns an identity or raises. on_connected: gets the connections that passed,
        each on its thread.
        """
        handshakes = _Handshakes()

        def handle(sock: socket.socket) -> None:
            try:
                identity = authenticate(sock)
            except (HandshakeFailed, OSError):
                sock.close()
                return
            finally:
                handshakes.remove(sock)
            on_connected(sock, identity)

        def accept_connections() -> None:
            while True:
                try:
                    sock, _ = self._socket.accept()
                except OSError:
                    if self._socket.fileno() < 0:
                        return  # the listener was closed
                    time.sleep(_RETRY_S)  # a connection was aborted, or there are too many files
                    continue
                handshakes.add(sock)
                threading.Thread(target=handle, args=(sock,), daemon=True).start()

        threading.Thread(target=accept_connections, daemon=True).start()

    def rendezvous(
        self,
        addresses: Sequence[Address],
        rank: int,
        *,
        token: str,
        attempt: int,
        timeout: float,
        sealed: bool = True,
    ) -> Communicator:
        """Connect to all workers (this one is addresses[rank]), or raise `PeerLost`.

        sealed: False only to measure the time that encryption takes.
        """
        deadline = time.monotonic() + timeout
        meeting = _Rendezvous(rank, len(addresses), handshake.secret_for(token, attempt), deadline)
        self.serve(meeting.authenticate, meeting.add_verified)
        try:
            for peer in range(rank):
                meeting.connections[peer] = meeting.connect(addresses[peer], peer)
            meeting.wait_for_higher_ranks()
        except BaseException:
            meeting.disconnect()
            raise
        finally:
            self.close()
        links = meeting.connections
        if not sealed:
            links = [None if link is None else Connection(link.sock, None) for link in links]
        return Communicator(rank, links, timeout)


class _Handshakes:
    """The connections that have not authenticated themselves yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[socket.socket, None] = {}  # in the order of their arrival

    def add(self, sock: socket.socket) -> None:
        """Add a connection; of too many, disconnect the oldest."""
        with self._lock:
            self._open[sock] = None
            if len(self._open) > MAX_HANDSHAKES:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread closes it

    def remove(self, sock: socket.socket) -> None:
        with self._lock:
            self._open.pop(sock, None)


class _Rendezvous:
    """The connections made so far."""

    def __init__(self, rank: int, size: int, secret: bytes, deadline: float) -> None:
        self.rank, self.size, self.secret, self.deadline = rank, size, secret, deadline
        self.connections: list[Connection | None] = [None] * size
        self.verified: queue.Queue[tuple[int, Connection]] = queue.Queue()

    def connect(self, address: Address, peer: int) -> Connection:
        """Connect to a lower rank; retry until the deadline, since it may not listen yet."""
        cause: Exception = TimeoutError("no answer")
        while (left := self.deadline - time.monotonic()) > 0:
            try:
                sock = socket.create_connection(address, left)
                try:
                    keys = handshake.initiate(
                        sock, self.secret, rank=self.rank, to=peer, size=self.size,
                        deadline=self.deadline, reply_deadline=time.monotonic() + HANDSHAKE_S,
                    )  # fmt: skip
                except BaseException:
                    sock.close()
                    raise
                return Connection(sock, keys)
            except (HandshakeFailed, OSError) as error:
                cause = error
                time.sleep(_RETRY_S)
        raise PeerLost(f"worker {peer} at {address[0]}:{address[1]} could not be reached: {cause}")

    def authenticate(self, sock: socket.socket) -> tuple[int, Keys]:
        """Verify an incoming connection; return its rank and keys."""
        deadline = min(self.deadline, time.monotonic() + HANDSHAKE_S)
        return handshake.respond(
            sock, self.secret, rank=self.rank, size=self.size, deadline=deadline
        )

    def add_verified(self, sock: socket.socket, identity: tuple[int, Keys]) -> None:
        peer, keys = identity
        self.verified.put((peer, Connection(sock, keys)))

    def wait_for_higher_ranks(self) -> None:
        """Block until every higher rank is connected, or raise `PeerLost` at the deadline."""
        while missing := [p for p in range(self.rank + 1, self.size) if not self.connections[p]]:
            try:
                peer, link = self.verified.get(timeout=max(self.deadline - time.monotonic(), 0))
            except queue.Empty:
                names = ", ".join(map(str, missing))
                raise PeerLost(f"worker {names} did not connect in time") from None
            previous, self.connections[peer] = self.connections[peer], None
            if previous is not None:  # the peer retried because its first connection failed
                previous.sock.close()
            try:
                handshake.accept(link.sock, self.deadline)
                self.connections[peer] = link
            except (HandshakeFailed, OSError):  # it failed again: wait for the next retry
                link.sock.close()

    def disconnect(self) -> None:
        """Close every connection."""
        for link in self.connections:
            if link is not None:
                link.sock.close()
