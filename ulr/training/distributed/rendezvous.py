"""Where workers find each other: every worker listens, calls those before it, lets in those after.

The listening socket is bound to one address and lives only until all are in.
"""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
import time
from collections.abc import Sequence

from ulr.errors import UserError
from ulr.training.distributed.communicator import Communicator, PeerLost
from ulr.training.distributed.handshake import Refused, answer, call, secret_for, welcome

Address = tuple[str, int]
TALK_S = 5.0  # a talk with a stranger ends after this long
MOST_TALKS = 64
AGAIN_S = 0.05


class Listener:
    """A listening socket on one address, IPv4 or IPv6; port 0: any free one."""

    def __init__(self, host: str, port: int = 0) -> None:
        try:
            family, kind, proto, _, where = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            self._socket = socket.socket(family, kind, proto)
            self._socket.bind(where)
        except OSError as why:
            raise UserError(
                f"cannot listen on {host} port {port}: {why.strerror or why}; "
                "choose an address of this machine and a free port (0: any)"
            ) from None
        self._socket.listen(128)
        self.address: Address = (host, self._socket.getsockname()[1])

    def close(self) -> None:
        """Nobody gets in any more."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # close alone would not wake `accept`
        self._socket.close()

    def meet(
        self, addresses: Sequence[Address], rank: int, *, token: str, attempt: int, timeout: float
    ) -> Communicator:
        """The mesh of all workers (this one is addresses[rank]), or `PeerLost` after `timeout`."""
        size, secret = len(addresses), secret_for(token, attempt)
        by = time.monotonic() + timeout
        party = _Rendezvous(rank, size, secret, by)
        listening = threading.Thread(target=party.accept_peers, args=(self._socket,), daemon=True)
        listening.start()
        try:
            for peer in range(rank):
                party.peers[peer] = party.visit(addresses[peer], peer)
            party.wait_for_callers()
        except BaseException:
            party.leave()
            raise
        finally:
            party.full.set()
            self.close()
        return Communicator(rank, party.peers, timeout)


class _Rendezvous:
    """Who is there so far."""

    def __init__(self, rank: int, size: int, secret: bytes, by: float) -> None:
        self.rank, self.size, self.secret, self.by = rank, size, secret, by
        self.peers: list[socket.socket | None] = [None] * size
        self.full = threading.Event()
        self.arrived: queue.Queue[tuple[int, socket.socket]] = queue.Queue()
        self.talks = threading.Semaphore(MOST_TALKS)

    def visit(self, address: Address, peer: int) -> socket.socket:
        """Call a worker until it answers; it may not listen yet."""
        why: Exception = TimeoutError("no answer")
        while time.monotonic() < self.by:
            try:
                sock = socket.create_connection(address, max(self.by - time.monotonic(), 0.01))
            except OSError as error:
                why = error
                time.sleep(AGAIN_S)
                continue
            try:
                call(sock, self.secret, rank=self.rank, to=peer, size=self.size, by=self.by)
                return sock
            except (Refused, OSError) as error:
                sock.close()
                why = error
                time.sleep(AGAIN_S)
        raise PeerLost(f"worker {peer} at {address[0]}:{address[1]} could not be reached: {why}")

    def accept_peers(self, listening: socket.socket) -> None:
        """Talk with every caller on a thread of its own, so that none can hold up another."""
        with contextlib.suppress(OSError):  # closed: the party is full, or over
            while not self.full.is_set():
                sock, _ = listening.accept()
                if not self.talks.acquire(blocking=False):
                    sock.close()
                    continue
                threading.Thread(target=self._talk, args=(sock,), daemon=True).start()

    def _talk(self, sock: socket.socket) -> None:
        by = min(self.by, time.monotonic() + TALK_S)
        try:
            caller = answer(sock, self.secret, rank=self.rank, size=self.size, by=by)
            self.arrived.put((caller, sock))
        except (Refused, OSError):
            sock.close()
        finally:
            self.talks.release()

    def wait_for_callers(self) -> None:
        """All workers after this one have come in."""
        while missing := [p for p in range(self.rank + 1, self.size) if self.peers[p] is None]:
            try:
                caller, sock = self.arrived.get(timeout=max(self.by - time.monotonic(), 0))
            except queue.Empty:
                names = ", ".join(map(str, missing))
                raise PeerLost(f"worker {names} did not come in time") from None
            old, self.peers[caller] = self.peers[caller], None
            if old is not None:  # it called again because its first call broke off
                old.close()
            try:
                welcome(sock, self.by)
                self.peers[caller] = sock
            except (Refused, OSError):  # this call broke off too: it is missing until the next
                sock.close()

    def leave(self) -> None:
        """Close every connection."""
        for sock in self.peers:
            if sock is not None:
                sock.close()
