"""Collectives over sockets that connect every worker with every other one.

A frame consists of a kind, a sequence number, a length and its bytes. While a worker computes, a
thread sends heartbeats for it, which distinguishes a busy peer from a lost one. A peer is lost when
nothing arrives for `timeout` seconds, when its stream ends, or when it sends an abort frame. Each
of these raises `PeerLost`. Sums are taken in rank order.

Written by hand because it was measured to be faster: an all-reduce of 1 KB takes 0.1 ms here,
0.5 ms with xgboost.collective and 1 s with Spark's allGather.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Sequence

import numpy as np

_HEADER = struct.Struct("!BxxxII")
DATA, HEARTBEAT, ABORT = 1, 2, 3
_HEARTBEATS_PER_TIMEOUT = 5
_MAX_REASON_BYTES = 2000
_NO_TIMEOUT_S = 1e6
_MIN_SPIN_S, _MAX_SPIN_S = 2e-6, 100e-6
Buffer = bytes | bytearray | memoryview


class PeerLost(RuntimeError):
    """A worker disconnected, stopped, or was never reached."""


class _Peer:
    """The connection to one rank: frames to be sent, and the frame that is being received."""

    def __init__(self, rank: int, sock: socket.socket) -> None:
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self.rank, self.sock = rank, sock
        self.outgoing: list[memoryview] = []
        self.awaited = False  # whether a data frame of the current exchange is missing
        self.last_received = 0.0
        self._send_error: OSError | None = None
        self._header = memoryview(bytearray(_HEADER.size))
        self._buffer = bytearray()  # of the body; used for all frames
        self._body = memoryview(self._buffer)
        self._free = self._header  # the part of header or body that has not arrived
        self._kind = 0  # of the frame whose body is received; 0 before

    def enqueue(self, kind: int, number: int, content: Buffer) -> None:
        view = memoryview(content).cast("B")
        self.outgoing += [memoryview(_HEADER.pack(kind, number, view.nbytes)), view]

    def send(self) -> None:
        """Send as much as fits into the socket's buffer.

        An error is raised by `receive`, because the peer may have sent its reason before it left.
        """
        try:
            while self.outgoing:
                sent = self.sock.sendmsg(self.outgoing)
                while self.outgoing and sent >= self.outgoing[0].nbytes:
                    sent -= self.outgoing.pop(0).nbytes
                if sent:
                    self.outgoing[0] = self.outgoing[0][sent:]
        except BlockingIOError:
            return
        except OSError as error:
            self._send_error, self.outgoing = error, []

    def receive(self, number: int) -> memoryview | None:
        """Read the available bytes; return the content of data frame `number` once complete.

        The content is valid until the next call.
        """
        try:
            while True:
                received = self.sock.recv_into(self._free)
                if not received:
                    raise PeerLost(f"worker {self.rank} disconnected (end of stream)")
                self.last_received = time.monotonic()
                self._free = self._free[received:]
                if not self._free and not self._kind:
                    self._begin_body(number)
                if not self._free:
                    content = self._end_frame()
                    if content is not None:
                        return content
        except BlockingIOError:
            if self._send_error is None:
                return None
            cause = self._send_error
        except OSError as error:
            cause = error
        raise PeerLost(f"worker {self.rank} disconnected ({cause})")

    def _begin_body(self, expected: int) -> None:
        kind, number, size = _HEADER.unpack(self._header)
        if kind not in {DATA, HEARTBEAT, ABORT} or (kind == DATA and number != expected):
            raise PeerLost(
                f"worker {self.rank} sent exchange {number} when {expected} was expected"
            )
        if kind != DATA and size > _MAX_REASON_BYTES:
            raise PeerLost(f"worker {self.rank} sent a control frame of {size} bytes")
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        self._kind, self._body = kind, memoryview(self._buffer)[:size]
        self._free = self._body

    def _end_frame(self) -> memoryview | None:
        """Return the content of a data frame; prepare for the next frame."""
        kind, self._kind, self._free = self._kind, 0, self._header
        if kind == ABORT:
            raise PeerLost(
                f"worker {self.rank} stopped: {bytes(self._body).decode(errors='replace')}"
            )
        return self._body if kind == DATA else None


class Communicator:
    """The connections of one rank to all others. Collectives must not be called concurrently.

    As a context manager it is closed at the end, with the exception, if any, as the reason.
    """

    def __init__(self, rank: int, sockets: Sequence[socket.socket | None], timeout: float) -> None:
        self.rank, self.size, self.timeout = rank, len(sockets), timeout
        self.seconds, self.calls, self.bytes = 0.0, 0, 0
        self._spin = _MAX_SPIN_S
        self._peers = [_Peer(n, sock) for n, sock in enumerate(sockets) if sock is not None]
        self._lock = threading.Lock()
        self._closed = threading.Event()
        if self._peers:
            threading.Thread(target=self._send_heartbeats, daemon=True).start()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.close("" if error is None else f"{type(error).__name__}: {error}")

    def exchange(self, outgoing: Sequence[Buffer]) -> list[Buffer]:
        """Send outgoing[r] to every rank r; return the contents received, in rank order.

        The contents are valid until the next exchange.
        """
        start = time.monotonic()
        number = self.calls & 0xFFFFFFFF
        received: list[Buffer] = list(outgoing)
        with self._lock:
            for peer in self._peers:
                peer.enqueue(DATA, number, outgoing[peer.rank])
                peer.awaited, peer.last_received = True, start
                self.bytes += memoryview(outgoing[peer.rank]).nbytes
            self._transfer(number, received)
        self.calls += 1
        self.seconds += time.monotonic() - start
        return received

    def _transfer(self, number: int, received: list[Buffer]) -> None:
        """Send and receive until the exchange is complete or a peer is lost."""
        busy = self._peers
        while busy:
            for peer in busy:
                if peer.outgoing:
                    peer.send()
                content = peer.receive(number) if peer.awaited or peer.outgoing else None
                if content is not None:
                    received[peer.rank], peer.awaited = content, False
            busy = [peer for peer in busy if peer.outgoing or peer.awaited]
            if busy:
                self._wait(busy)

    def _wait(self, busy: list[_Peer]) -> None:
        """Block until a socket is ready; raise `PeerLost` for a peer that was silent for too long.

        To sleep and be woken takes as long as many exchanges, so it polls for some microseconds
        first: for less time after it had to sleep, for more after it had not.
        """
        now = time.monotonic()
        for peer in busy:
            if now - peer.last_received > self.timeout:
                raise PeerLost(f"worker {peer.rank} has been silent for {self.timeout:g} s")
        poller = select.poll()
        for peer in busy:
            poller.register(peer.sock, select.POLLIN | (select.POLLOUT if peer.outgoing else 0))
        end = now + self._spin
        while time.monotonic() < end:
            if poller.poll(0):
                self._spin = min(2 * self._spin, _MAX_SPIN_S)
                return
        self._spin = max(self._spin / 2, _MIN_SPIN_S)
        last = min(peer.last_received for peer in busy)
        poller.poll(1000 * (last + self.timeout - now) + 1)

    def allgather(self, content: Buffer) -> list[Buffer]:
        """Return the contents of all ranks, in rank order, valid until the next exchange."""
        return self.exchange([content] * self.size)

    def sum(self, totals: np.ndarray) -> np.ndarray:
        """Return the sum of int64 or float64 arrays over all ranks, equal on every rank."""
        totals = np.ascontiguousarray(totals)
        parts = self.allgather(totals.reshape(-1).view(np.uint8).data if totals.size else b"")
        arrays = [np.frombuffer(part, totals.dtype) for part in parts]
        total = arrays[0].copy()
        for array in arrays[1:]:
            total += array
        return total.reshape(totals.shape)

    def close(self, reason: str = "") -> None:
        """Disconnect. A reason is sent to the peers first."""
        if self._closed.is_set():
            return
        self._closed.set()
        with self._lock:
            for peer in self._peers:
                if reason and not peer.outgoing:
                    peer.enqueue(ABORT, 0, reason.encode()[:_MAX_REASON_BYTES])
                    peer.send()
                peer.sock.close()

    def _send_heartbeats(self) -> None:
        """Send heartbeats while the worker computes; an exchange holds the lock and needs none."""
        while not self._closed.wait(self.timeout / _HEARTBEATS_PER_TIMEOUT):
            if not self._lock.acquire(blocking=False):
                continue
            try:
                for peer in self._peers:
                    if not peer.outgoing:
                        peer.enqueue(HEARTBEAT, 0, b"")
                    peer.send()
            finally:
                self._lock.release()


def single_rank() -> Communicator:
    """Return the communicator of a rank without peers."""
    return Communicator(0, [None], _NO_TIMEOUT_S)


def connected_pair() -> list[Communicator]:
    """Return the communicators of two ranks that are threads of this process."""
    first, second = socket.socketpair()
    return [
        Communicator(0, [None, first], _NO_TIMEOUT_S),
        Communicator(1, [second, None], _NO_TIMEOUT_S),
    ]
