"""A proxy between two workers that changes the traffic, and the attacks that it can carry out.

    with ManInTheMiddle(listener.address, "change_byte", toward="initiator") as proxy:
        ...  # the worker that connects uses proxy.address instead of listener.address

The proxy passes the handshake on, splits both streams into frames and gives the frames of one
direction to the attack. An attack is a generator: the bytes that it yields are sent instead of the
frame. It is given each frame until it returns `DONE`; later frames pass unchanged. ATTACKS lists
all of them by name. None needs the token.

After every attack the victim must raise `PeerLost`. It must not get a wrong value, hang, crash or
allocate what a header announces.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Literal

from ulr.training.distributed.peer import DATA, HEADER, HEARTBEAT
from ulr.training.distributed.seal import TAG_BYTES

Side = Literal["initiator", "responder"]
# Bytes of the handshake that each side sends: a greeting and a proof; nonce, proof and acceptance.
HANDSHAKE_BYTES = {"initiator": 30 + 32, "responder": 16 + 32 + 1}
DONE = True
TRICKLE_S = 1.0


@dataclass
class Link:
    """One direction of the connection, as an attack sees it."""

    source: socket.socket
    target: socket.socket
    closed: threading.Event  # set when the proxy is closed
    held: list[bytes] = field(default_factory=list)

    def reflect(self, content: bytes) -> None:
        """Send bytes back to the side that they came from."""
        self.source.sendall(content)


Attack = Callable[[Link, bytes], Generator[bytes, None, bool]]


def kind_of(frame: bytes) -> int:
    return int(HEADER.unpack_from(frame)[0])


def on_data(attack: Attack) -> Attack:
    """Return an attack that leaves all frames but data frames as they are."""

    def attack_data(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
        if kind_of(frame) != DATA:
            yield frame
            return False
        return (yield from attack(link, frame))

    return attack_data


def change_byte(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    changed = bytearray(frame)
    changed[HEADER.size] ^= 1
    yield bytes(changed)
    return DONE


def change_tag(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    yield frame[:-1] + bytes([frame[-1] ^ 1])
    return DONE


def change_heartbeat(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    """Make an abort frame of a heartbeat; a worker sends one if it computes for long."""
    if kind_of(frame) != HEARTBEAT:
        yield frame
        return False
    yield bytes([3]) + frame[1:]
    return DONE


def replay(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    """Send an earlier frame in place of the next one, with the header of the next one."""
    if not link.held:
        link.held.append(frame)
        yield frame
        return False
    yield frame[: HEADER.size] + link.held[0][HEADER.size :]
    return DONE


def repeat(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    """Send a heartbeat twice."""
    yield frame
    if kind_of(frame) != HEARTBEAT:
        return False
    yield frame
    return DONE


def reorder(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    """Hold a heartbeat and send it after the frame that follows it."""
    if link.held:
        yield frame + link.held.pop()
        return DONE
    if kind_of(frame) == HEARTBEAT:
        link.held.append(frame)
        return False
    yield frame
    return False


def truncate(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    yield frame[: len(frame) // 2]
    link.target.shutdown(socket.SHUT_RDWR)
    return DONE


def empty_frame(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    kind, number, _ = HEADER.unpack_from(frame)
    yield HEADER.pack(kind, number, 0) + frame[-TAG_BYTES:]
    return DONE


def short_frame(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    kind, number, size = HEADER.unpack_from(frame)
    yield HEADER.pack(kind, number, size - 8) + frame[HEADER.size : -8]
    return DONE


def huge_header(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    kind, number, _ = HEADER.unpack_from(frame)
    yield HEADER.pack(kind, number, 2**32 - 1) + frame[HEADER.size :]
    return DONE


def trickle(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    """Send one byte a second."""
    for byte in frame:
        yield bytes([byte])
        link.closed.wait(TRICKLE_S)
    return DONE


def withhold(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    """Send nothing any more, and keep the connection open."""
    link.closed.wait()
    return DONE
    yield b""


def garbage(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    yield os.urandom(4096)
    return DONE


def reflect(link: Link, frame: bytes) -> Generator[bytes, None, bool]:
    """Send a frame back to its sender, who expects one of the same length and number."""
    link.reflect(frame)
    return DONE
    yield b""


# Attacks on the frames that the victim receives; those of BACK, on the frames that it sends.
ATTACKS: dict[str, Attack] = {
    "change_byte": on_data(change_byte),
    "change_tag": on_data(change_tag),
    "change_heartbeat": change_heartbeat,
    "replay": on_data(replay),
    "repeat": repeat,
    "reorder": reorder,
    "truncate": on_data(truncate),
    "empty_frame": on_data(empty_frame),
    "short_frame": on_data(short_frame),
    "huge_header": on_data(huge_header),
    "trickle": on_data(trickle),
    "withhold": withhold,
    "garbage": on_data(garbage),
    "reflect": on_data(reflect),
}
BACK = {"reflect"}


class ManInTheMiddle:
    """A proxy for one connection to `target`. toward: the victim, by its part in the handshake."""

    def __init__(self, target: tuple[str, int], attack: str, toward: Side) -> None:
        other: Side = "responder" if toward == "initiator" else "initiator"
        self._target, self._attack = target, ATTACKS[attack]
        self._attacked_source = toward if attack in BACK else other
        self._over, self._closed = False, threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._server.getsockname()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> ManInTheMiddle:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._server.close()
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                initiator, _ = self._server.accept()
                responder = socket.create_connection(self._target)
                self._sockets += [initiator, responder]
                for side, source, target in (
                    ("initiator", initiator, responder),
                    ("responder", responder, initiator),
                ):
                    arguments = side, Link(source, target, self._closed)
                    threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def _forward(self, side: Side, link: Link) -> None:
        with contextlib.suppress(OSError):
            for _ in range(HANDSHAKE_BYTES[side]):
                link.target.sendall(_read(link.source, 1))
            while True:
                header = _read(link.source, HEADER.size)
                frame = header + _read(link.source, HEADER.unpack(header)[2] + TAG_BYTES)
                if side == self._attacked_source and not self._over:
                    self._carry_out(link, frame)
                else:
                    link.target.sendall(frame)
        with contextlib.suppress(OSError):
            link.target.shutdown(socket.SHUT_WR)  # pass the end of the stream on

    def _carry_out(self, link: Link, frame: bytes) -> None:
        steps = self._attack(link, frame)
        while True:
            try:
                link.target.sendall(next(steps))
            except StopIteration as end:
                self._over = end.value
                return


def _read(sock: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        piece = sock.recv(size - len(content))
        if not piece:
            raise ConnectionError("end of stream")
        content += piece
    return content
