"""How workers connect: each one listens, connects to lower ranks and accepts higher ranks.

The listening socket is bound to one address and closed as soon as all workers are connected.
"""

from __future__ import annotations

import contextlib
import errno
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence

from ulr.errors import TemporaryFailure, UserError
from ulr.training.distributed import handshake
from ulr.training.distributed.communicator import Communicator, PeerLost
from ulr.training.distributed.handshake import HandshakeFailed

Address = tuple[str, int]
HANDSHAKE_S = 5.0  # limit for incoming connections, which may come from anywhere
_MAX_CONNECTIONS = 64  # handled at the same time
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

    def serve(self, handle: Callable[[socket.socket], None]) -> None:
        """Start calling `handle` with every new connection, each on a thread, until closed."""
        free = threading.Semaphore(_MAX_CONNECTIONS)

        def handle_and_release(sock: socket.socket) -> None:
            try:
                handle(sock)
            finally:
                free.release()

        def accept_connections() -> None:
            with contextlib.suppress(OSError):  # the listener was closed
                while True:
                    sock, _ = self._socket.accept()
                    if free.acquire(blocking=False):
                        threading.Thread(
                            target=handle_and_release, args=(sock,), daemon=True
                        ).start()
                    else:
                        sock.close()

        threading.Thread(target=accept_connections, daemon=True).start()

    def rendezvous(
        self, addresses: Sequence[Address], rank: int, *, token: str, attempt: int, timeout: float
    ) -> Communicator:
        """Connect to all workers (this one is addresses[rank]), or raise `PeerLost`."""
        deadline = time.monotonic() + timeout
        meeting = _Rendezvous(rank, len(addresses), handshake.secret_for(token, attempt), deadline)
        self.serve(meeting.accept_peer)
        try:
            for peer in range(rank):
                meeting.sockets[peer] = meeting.connect(addresses[peer], peer)
            meeting.wait_for_higher_ranks()
        except BaseException:
            meeting.disconnect()
            raise
        finally:
            self.close()
        return Communicator(rank, meeting.sockets, timeout)


class _Rendezvous:
    """The connections made so far."""

    def __init__(self, rank: int, size: int, secret: bytes, deadline: float) -> None:
        self.rank, self.size, self.secret, self.deadline = rank, size, secret, deadline
        self.sockets: list[socket.socket | None] = [None] * size
        self.verified: queue.Queue[tuple[int, socket.socket]] = queue.Queue()

    def connect(self, address: Address, peer: int) -> socket.socket:
        """Connect to a lower rank; retry until the deadline, since it may not listen yet."""
        cause: Exception = TimeoutError("no answer")
        while (left := self.deadline - time.monotonic()) > 0:
            try:
                sock = socket.create_connection(address, left)
                try:
                    handshake.initiate(sock, self.secret, rank=self.rank, to=peer, size=self.size,
                                       deadline=self.deadline)  # fmt: skip
                except BaseException:
                    sock.close()
                    raise
                return sock
            except (HandshakeFailed, OSError) as error:
                cause = error
                time.sleep(_RETRY_S)
        raise PeerLost(f"worker {peer} at {address[0]}:{address[1]} could not be reached: {cause}")

    def accept_peer(self, sock: socket.socket) -> None:
        """Verify an incoming connection."""
        deadline = min(self.deadline, time.monotonic() + HANDSHAKE_S)
        try:
            peer = handshake.respond(
                sock, self.secret, rank=self.rank, size=self.size, deadline=deadline
            )
        except (HandshakeFailed, OSError):
            sock.close()
        else:
            self.verified.put((peer, sock))

    def wait_for_higher_ranks(self) -> None:
        """Block until every higher rank is connected, or raise `PeerLost` at the deadline."""
        while missing := [p for p in range(self.rank + 1, self.size) if self.sockets[p] is None]:
            try:
                peer, sock = self.verified.get(timeout=max(self.deadline - time.monotonic(), 0))
            except queue.Empty:
                names = ", ".join(map(str, missing))
                raise PeerLost(f"worker {names} did not connect in time") from None
            previous, self.sockets[peer] = self.sockets[peer], None
            if previous is not None:  # the peer retried because its first connection failed
                previous.close()
            try:
                handshake.accept(sock, self.deadline)
                self.sockets[peer] = sock
            except (HandshakeFailed, OSError):  # it failed again: wait for the next retry
                sock.close()

    def disconnect(self) -> None:
        """Close every connection."""
        for sock in self.sockets:
            if sock is not None:
                sock.close()
