"""Collectives over sockets that connect every worker with every other one.

While a worker computes, a thread sends heartbeats for it, which distinguishes a busy peer from a
lost one. `peer` says when a peer is lost, which raises `PeerLost`. Sums are taken in rank order.

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

from ulr.training.distributed.peer import (
    ABORT,
    DATA,
    HEARTBEAT,
    MAX_REASON_BYTES,
    Connection,
    Peer,
    PeerLost,
)
from ulr.training.distributed.seal import Buffer

_LENGTH = struct.Struct("!Q")
_HEARTBEATS_PER_TIMEOUT = 5
_NO_TIMEOUT_S = 1e6
_MIN_SPIN_S, _MAX_SPIN_S = 2e-6, 100e-6


class Communicator:
    """The connections of one rank to all others. Collectives must not be called concurrently.

    As a context manager it is closed at the end, with the exception, if any, as the reason.
    """

    def __init__(self, rank: int, connections: Sequence[Connection | None], timeout: float) -> None:
        self.rank, self.size, self.timeout = rank, len(connections), timeout
        self.seconds, self.calls, self.bytes = 0.0, 0, 0
        self._spin = _MAX_SPIN_S
        self._peers = [Peer(n, link) for n, link in enumerate(connections) if link is not None]
        self._lock = threading.Lock()
        self._closed = threading.Event()
        if self._peers:
            threading.Thread(target=self._send_heartbeats, daemon=True).start()

    def __enter__(self) -> Communicator:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.close("" if error is None else f"{type(error).__name__}: {error}")

    def exchange(self, outgoing: Sequence[Buffer], sizes: Sequence[int]) -> list[Buffer]:
        """Send outgoing[r] to every rank r; return the contents received, in rank order.

        sizes: the bytes that each rank sends to this one. The contents are valid until the next
        exchange.
        """
        start = time.monotonic()
        number = self.calls & 0xFFFFFFFF
        received: list[Buffer] = list(outgoing)
        with self._lock:
            for peer in self._peers:
                sent, size = memoryview(outgoing[peer.rank]).nbytes, sizes[peer.rank]
                peer.expect(number, size, sent=sent, now=start, timeout=self.timeout)
                peer.enqueue(DATA, number, outgoing[peer.rank])
                peer.send()
                self.bytes += sent
            self._transfer(received)
        self.calls += 1
        self.seconds += time.monotonic() - start
        return received

    def _transfer(self, received: list[Buffer]) -> None:
        """Send and receive until the exchange is complete or a peer is lost."""
        busy = self._peers
        while busy:
            for peer in busy:
                if peer.outgoing:
                    peer.send()
                content = peer.receive() if peer.awaited or peer.outgoing else None
                if content is not None:
                    received[peer.rank], peer.awaited = content, False
            busy = [peer for peer in busy if peer.outgoing or peer.awaited]
            if busy:
                self._wait(busy)

    def _wait(self, busy: list[Peer]) -> None:
        """Block until a socket is ready; raise `PeerLost` for a peer that is late.

        To sleep and be woken takes as long as many exchanges, so it polls for some microseconds
        first: for less time after it had to sleep, for more after it had not.
        """
        now = time.monotonic()
        for peer in busy:
            peer.check_time(now)
        poller = select.poll()
        for peer in busy:
            poller.register(peer.sock, select.POLLIN | (select.POLLOUT if peer.outgoing else 0))
        end = now + self._spin
        while time.monotonic() < end:
            if poller.poll(0):
                self._spin = min(2 * self._spin, _MAX_SPIN_S)
                return
        self._spin = max(self._spin / 2, _MIN_SPIN_S)
        poller.poll(1000 * (min(peer.next_check for peer in busy) - now) + 1)

    def allgather(self, content: Buffer, sizes: Sequence[int] | None = None) -> list[Buffer]:
        """Return the contents of all ranks, in rank order, valid until the next exchange.

        sizes: bytes of each rank's content; without, all have as many as this rank's.
        """
        own = memoryview(content).nbytes
        return self.exchange([content] * self.size, [own] * self.size if sizes is None else sizes)

    def allgather_messages(self, content: bytes, max_bytes: int) -> list[bytes]:
        """Return contents of any length up to `max_bytes` of all ranks, in rank order."""
        lengths = [
            int.from_bytes(size, "big") for size in self.allgather(_LENGTH.pack(len(content)))
        ]
        if (longest := max(lengths)) > max_bytes:
            rank = lengths.index(longest)
            raise PeerLost(
                f"worker {rank} announced a message of {longest} bytes, more than {max_bytes}"
            )
        return [bytes(part) for part in self.allgather(content, lengths)]

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
                    peer.enqueue(ABORT, 0, reason.encode()[:MAX_REASON_BYTES])
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
        Communicator(0, [None, Connection(first, None)], _NO_TIMEOUT_S),
        Communicator(1, [Connection(second, None), None], _NO_TIMEOUT_S),
    ]
