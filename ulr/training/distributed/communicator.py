"""A full mesh of sockets between the workers: collectives that end, one way or the other.

A frame is a kind, a sequence number, a length and bytes. While a worker computes, a thread sends
heartbeats for it; so a peer that is busy is told from one that is gone: silence for `timeout`
seconds, an end of stream, or a farewell with its reason, each raises `PeerLost` at once.
Every sum is taken in the order of ranks.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

_HEADER = struct.Struct("!BxxxII")
DATA, BEAT, FAREWELL = 1, 2, 3
_MOST_REASON = 2000
FOR_EVER_S = 1e6  # a thread of this process does not fall silent
Buffer = bytes | bytearray | memoryview
Piece = TypeVar("Piece", bytes, int)


class PeerLost(RuntimeError):
    """A worker is gone, or was never there; training goes on from the last checkpoint."""


class _Peer:
    """One peer: what is still to be sent and what has come of the frame being received."""

    def __init__(self, rank: int, sock: socket.socket) -> None:
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self.rank, self.sock = rank, sock
        self.outgoing: list[memoryview] = []
        self.header = bytearray()
        self.body = memoryview(b"")
        self.filled = 0
        self.kind = DATA
        self.wanted = False
        self.heard = 0.0
        self.broken: OSError | None = None

    def post(self, kind: int, number: int, content: Buffer) -> None:
        view = memoryview(content).cast("B")
        self.outgoing.append(memoryview(_HEADER.pack(kind, number, view.nbytes)))
        if view.nbytes:
            self.outgoing.append(view)

    def push(self) -> None:
        """Send what the kernel takes. What broke is told by `pull`, after the peer's last words."""
        try:
            while self.outgoing:
                sent = self.sock.send(self.outgoing[0])
                if sent < self.outgoing[0].nbytes:
                    self.outgoing[0] = self.outgoing[0][sent:]
                else:
                    self.outgoing.pop(0)
        except BlockingIOError:
            return
        except OSError as why:
            self.broken, self.outgoing = why, []

    def pull(self, number: int) -> bytes | None:
        """Take what has come; the content once the frame `number` is complete."""
        try:
            while True:
                if len(self.header) < _HEADER.size:
                    self.header += self._take(self.sock.recv(_HEADER.size - len(self.header)))
                    if len(self.header) == _HEADER.size:
                        self._open(number)
                elif self.filled < self.body.nbytes:
                    self.filled += self._take(self.sock.recv_into(self.body[self.filled :]))
                if len(self.header) == _HEADER.size and self.filled == self.body.nbytes:
                    content = self._close()
                    if content is not None:
                        return content
        except BlockingIOError:
            if self.broken is None:
                return None
            raise PeerLost(f"worker {self.rank} has gone ({self.broken})") from None
        except OSError as why:
            raise PeerLost(f"worker {self.rank} has gone ({why})") from None

    def _take(self, what: Piece) -> Piece:
        """Note that the peer lives; nothing at all is the end of its stream."""
        if not what:
            raise PeerLost(f"worker {self.rank} has gone (end of stream)")
        self.heard = time.monotonic()
        return what

    def _open(self, number: int) -> None:
        self.kind, theirs, size = _HEADER.unpack(self.header)
        if self.kind not in {DATA, BEAT, FAREWELL} or (self.kind == DATA and theirs != number):
            raise PeerLost(f"worker {self.rank} is out of step: exchange {theirs}, not {number}")
        if self.kind != DATA and size > _MOST_REASON:
            raise PeerLost(f"worker {self.rank} sent {size} bytes that make no sense")
        self.body, self.filled = memoryview(bytearray(size)), 0

    def _close(self) -> bytes | None:
        content = self.body.obj if self.body.nbytes else b""
        self.header, self.body, self.filled = bytearray(), memoryview(b""), 0
        if self.kind == FAREWELL:
            raise PeerLost(f"worker {self.rank} stopped: {content.decode(errors='replace')}")
        return content if self.kind == DATA else None


class Communicator:
    """All workers of one attempt. Not for several threads at once."""

    def __init__(self, rank: int, peers: Sequence[socket.socket | None], timeout: float) -> None:
        self.rank, self.size, self.timeout = rank, len(peers), timeout
        self.seconds, self.calls, self.bytes = 0.0, 0, 0
        self._links = [_Peer(n, sock) for n, sock in enumerate(peers) if sock is not None]
        self._lock = threading.Lock()
        self._done = threading.Event()
        if self._links:
            threading.Thread(target=self._beat, daemon=True).start()

    def exchange(self, outgoing: Sequence[Buffer]) -> list[Buffer]:
        """Send outgoing[r] to every worker r; what each sent here, in order of rank."""
        start = time.monotonic()
        number = self.calls & 0xFFFFFFFF
        received: list[Buffer] = list(outgoing)
        with self._lock:
            for link in self._links:
                link.post(DATA, number, outgoing[link.rank])
                link.wanted, link.heard = True, start
            self._pump(number, received)
        self.calls += 1
        self.bytes += sum(memoryview(outgoing[link.rank]).nbytes for link in self._links)
        self.seconds += time.monotonic() - start
        return received

    def _pump(self, number: int, received: list[Buffer]) -> None:
        """Send and receive until nothing is left to do, or a peer is lost."""
        busy = self._links
        while busy:
            for link in busy:
                link.push()
                content = link.pull(number) if link.wanted or link.outgoing else None
                if content is not None:
                    received[link.rank], link.wanted = content, False
            busy = [link for link in busy if link.outgoing or link.wanted]
            _wait(busy, self.timeout)

    def allgather(self, content: Buffer) -> list[Buffer]:
        """Everybody's content, in order of rank."""
        return self.exchange([content] * self.size)

    def sum(self, totals: np.ndarray) -> np.ndarray:
        """The sum over workers of int64 or float64 arrays, in order of rank, the same on all."""
        totals = np.ascontiguousarray(totals)
        parts = self.allgather(totals.reshape(-1).view(np.uint8).data if totals.size else b"")
        arrays = [np.frombuffer(part, totals.dtype) for part in parts]
        total = arrays[0].copy()
        for array in arrays[1:]:
            total += array
        return total.reshape(totals.shape)

    def close(self, reason: str = "") -> None:
        """Leave; with a reason, the others are told it."""
        if self._done.is_set():
            return
        self._done.set()
        with self._lock:
            for link in self._links:
                if reason and not link.outgoing:
                    link.post(FAREWELL, 0, reason.encode()[:_MOST_REASON])
                    link.push()
                link.sock.close()

    def _beat(self) -> None:
        """Say "still here" while the worker computes; inside a collective it speaks for itself."""
        while not self._done.wait(self.timeout / 5):
            if not self._lock.acquire(blocking=False):
                continue
            try:
                for link in self._links:
                    if not link.outgoing:
                        link.post(BEAT, 0, b"")
                    link.push()
            finally:
                self._lock.release()


def _wait(busy: list[_Peer], timeout: float) -> None:
    """Until a socket is ready; `PeerLost` for a peer that has been silent for too long."""
    if not busy:
        return
    now = time.monotonic()
    for link in busy:
        if now - link.heard > timeout:
            raise PeerLost(f"worker {link.rank} has been silent for {timeout:g} s")
    poller = select.poll()
    for link in busy:
        events = (select.POLLOUT if link.outgoing else 0) | select.POLLIN
        poller.register(link.sock, events)
    poller.poll(1000 * min(link.heard + timeout - now for link in busy) + 1)


def pair_within() -> list[Communicator]:
    """A mesh of two for threads of one process; nobody else can reach it."""
    ends = socket.socketpair()
    return [
        Communicator(0, [None, ends[0]], FOR_EVER_S),
        Communicator(1, [ends[1], None], FOR_EVER_S),
    ]
