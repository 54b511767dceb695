"""The connection to one worker: the frames to be sent, and the frame that is being received.

A frame consists of a kind, the number of its exchange, its length and its bytes, encrypted and
authenticated by `seal`. The length that a peer has to send is known before a frame arrives, and any
other length is refused before memory is allocated for it.

A peer is lost, which raises `PeerLost`, when
- its stream ends, it sends an abort frame, or a frame is not the next one that it sent;
- no frame of it, not even a heartbeat, is complete within `timeout` seconds. Bytes of a frame that
  does not end do not count. Every megabyte that the exchange transfers adds a second;
- an exchange takes longer than TIMEOUTS_PER_EXCHANGE times `timeout`, although heartbeats arrive.
  This ends the wait for a peer that is alive and makes no progress. The limit is long because a
  peer may read its data for minutes while the others wait.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import NamedTuple

from ulr.training.distributed.seal import Buffer, FrameRejected, Keys, PlainSealer, Sealer

HEADER = struct.Struct("!BxxxII")  # kind, number of the exchange, bytes of the content
DATA, HEARTBEAT, ABORT = 1, 2, 3
TIMEOUTS_PER_EXCHANGE = 60  # 30 minutes with the default train.worker_timeout
MAX_REASON_BYTES = 2000
_MIN_BYTES_PER_S = 1 << 20


class PeerLost(RuntimeError):
    """A worker disconnected, stopped, or was never reached."""


class Connection(NamedTuple):
    """A socket to a peer. Without keys, frames are neither encrypted nor authenticated."""

    sock: socket.socket
    keys: Keys | None


class Peer:
    """The connection to one rank: frames to be sent, and the frame that is being received."""

    def __init__(self, rank: int, connection: Connection) -> None:
        sock, keys = connection
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self.rank, self.sock = rank, sock
        self._sender = PlainSealer() if keys is None else Sealer(keys.send)
        self._receiver = PlainSealer() if keys is None else Sealer(keys.receive)
        self.outgoing: list[memoryview] = []
        self.awaited = False  # whether a data frame of the current exchange is missing
        self.last_frame, self._patience, self._deadline = 0.0, 0.0, 0.0
        self._expected = 0, 0  # number and bytes of the data frame
        self._send_error: OSError | None = None
        self._header = memoryview(bytearray(HEADER.size))
        self._buffer = bytearray()  # of the body; used for all frames
        self._body = memoryview(self._buffer)
        self._free = self._header  # the part of header or body that has not arrived
        self._kind = 0  # of the frame whose body is received; 0 before

    def enqueue(self, kind: int, number: int, content: Buffer) -> None:
        view = memoryview(content).cast("B")
        header = HEADER.pack(kind, number, view.nbytes)
        self.outgoing += [memoryview(header), memoryview(self._sender.seal(header, view))]

    def expect(self, number: int, size: int, *, sent: int, now: float, timeout: float) -> None:
        """Begin an exchange: a data frame of `size` bytes is awaited, `sent` bytes are sent."""
        transfer = (size + sent) / _MIN_BYTES_PER_S
        self.awaited, self._expected, self.last_frame = True, (number, size), now
        self._patience = timeout + transfer
        self._deadline = now + TIMEOUTS_PER_EXCHANGE * timeout + transfer

    def check_time(self, now: float) -> None:
        """Raise `PeerLost` if the peer was silent for too long or the exchange takes too long."""
        if now > self.last_frame + self._patience:
            raise PeerLost(
                f"worker {self.rank} has been silent for {self._patience:.3g} s"
                + (", in the middle of a frame" if self._in_frame else "")
            )
        if now > self._deadline:
            raise PeerLost(
                f"worker {self.rank} sends heartbeats, but did not finish an exchange in time"
            )

    @property
    def _in_frame(self) -> bool:
        return bool(self._kind) or len(self._free) < HEADER.size

    @property
    def next_check(self) -> float:
        """Return the time at which `check_time` may raise."""
        return min(self.last_frame + self._patience, self._deadline)

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

    def receive(self) -> Buffer | None:
        """Read the available bytes; return the content of the data frame once it is complete.

        The content is valid until the next call.
        """
        try:
            while True:
                received = self.sock.recv_into(self._free)
                if not received:
                    where = ", in the middle of a frame" if self._in_frame else ""
                    raise PeerLost(f"worker {self.rank} disconnected (end of stream{where})")
                self._free = self._free[received:]
                if not self._free and not self._kind:
                    self._begin_body()
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

    def _begin_body(self) -> None:
        """Check the header; nothing is allocated for a frame of another length than expected."""
        kind, number, size = HEADER.unpack(self._header)
        expected, length = self._expected
        if kind not in {DATA, HEARTBEAT, ABORT}:
            raise PeerLost(f"worker {self.rank} sent a frame of unknown kind {kind}")
        if kind == DATA and (number != expected or not self.awaited):
            raise PeerLost(
                f"worker {self.rank} sent exchange {number} when {expected} was expected"
            )
        if (kind == DATA and size != length) or (kind == HEARTBEAT and size):
            wanted = length if kind == DATA else 0
            raise PeerLost(f"worker {self.rank} sent {size} bytes when {wanted} were expected")
        if kind == ABORT and size > MAX_REASON_BYTES:
            raise PeerLost(f"worker {self.rank} sent a reason of {size} bytes")
        size += self._receiver.overhead
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        self._kind, self._body = kind, memoryview(self._buffer)[:size]
        self._free = self._body

    def _end_frame(self) -> Buffer | None:
        """Authenticate a frame; return the content of a data frame; prepare for the next one."""
        kind, self._kind, self._free = self._kind, 0, self._header
        try:
            content = self._receiver.open(self._header, self._body)
        except FrameRejected as error:
            raise PeerLost(
                f"worker {self.rank} sent a frame that was not accepted: {error}"
            ) from None
        if kind == ABORT:
            reason = bytes(content).decode(errors="replace")
            raise PeerLost(f"worker {self.rank} stopped: {reason}")
        now = time.monotonic()
        if kind == HEARTBEAT:
            self.check_time(now)  # heartbeats without end must not keep `receive` from returning
        self.last_frame = now
        return content if kind == DATA else None
