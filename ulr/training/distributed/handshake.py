"""Mutual authentication of two workers of one training attempt.

    initiator  magic, its rank, the responder's rank, number of ranks, nonce
    responder  nonce, HMAC(secret, "responder", all bytes so far)
    initiator  HMAC(secret, "initiator", all bytes so far)
    responder  one byte: accepted

The secret is never sent. An unexpected byte ends only the handshake that it arrived in. The first
message of an initiator must arrive within FIRST_MESSAGE_S, so that connections that send nothing
are closed. Deadlines are values of `time.monotonic`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
import time

from ulr.training.distributed.seal import Keys, derive_keys

FIRST_MESSAGE_S = 1.0
_MAGIC = b"ulrtrain"
_HELLO = struct.Struct("!8sHHH16s")
_NONCE_BYTES, _PROOF_BYTES = 16, 32
_ACCEPTED = b"\x01"


class HandshakeFailed(Exception):
    """The other side could not prove that it belongs to this attempt, or not in time."""


def secret_for(token: str, attempt: int) -> bytes:
    """Return the key of one attempt: workers left over from earlier attempts are rejected."""
    return hmac.digest(token.encode(), f"attempt {attempt}".encode(), hashlib.sha256)


def initiate(
    sock: socket.socket,
    secret: bytes,
    *,
    rank: int,
    to: int,
    size: int,
    deadline: float,
    reply_deadline: float | None = None,
) -> Keys:
    """Authenticate rank `rank` to rank `to` of `size`, and verify the other side.

    reply_deadline: for the proof, which is sent at once. The last byte may take until `deadline`,
    because the responder accepts a connection when it has made its own.
    """
    proof_deadline = deadline if reply_deadline is None else min(deadline, reply_deadline)
    hello = _HELLO.pack(_MAGIC, rank, to, size, os.urandom(_NONCE_BYTES))
    send(sock, hello, proof_deadline)
    reply = receive(sock, _NONCE_BYTES + _PROOF_BYTES, proof_deadline)
    nonce, proof = reply[:_NONCE_BYTES], reply[_NONCE_BYTES:]
    _check(proof, _prove(secret, b"responder", hello, nonce))
    send(sock, _prove(secret, b"initiator", hello, nonce), deadline)
    if receive(sock, 1, deadline) != _ACCEPTED:
        raise HandshakeFailed("unexpected last byte of the handshake")
    there, back = derive_keys(secret, hello, nonce)
    return Keys(send=there, receive=back)


def respond(
    sock: socket.socket, secret: bytes, *, rank: int, size: int, deadline: float
) -> tuple[int, Keys]:
    """Verify an initiator; return its rank and the keys. It is connected only after `accept`."""
    hello = receive(sock, _HELLO.size, min(deadline, time.monotonic() + FIRST_MESSAGE_S))
    magic, initiator, to, count, _ = _HELLO.unpack(hello)
    if magic != _MAGIC or to != rank or count != size or not rank < initiator < size:
        raise HandshakeFailed("unexpected first message of the handshake")
    nonce = os.urandom(_NONCE_BYTES)
    send(sock, nonce + _prove(secret, b"responder", hello, nonce), deadline)
    _check(receive(sock, _PROOF_BYTES, deadline), _prove(secret, b"initiator", hello, nonce))
    there, back = derive_keys(secret, hello, nonce)
    return initiator, Keys(send=back, receive=there)


def accept(sock: socket.socket, deadline: float) -> None:
    """Confirm the connection to a verified initiator."""
    send(sock, _ACCEPTED, deadline)


def receive(sock: socket.socket, size: int, deadline: float) -> bytes:
    """Return the next `size` bytes, or raise if they do not arrive by the deadline."""
    content = b""
    while len(content) < size:
        _set_timeout(sock, deadline)
        piece = sock.recv(size - len(content))
        if not piece:
            raise HandshakeFailed("the other side disconnected during the handshake")
        content += piece
    return content


def send(sock: socket.socket, content: bytes, deadline: float) -> None:
    """Send all bytes, or raise if the deadline passes."""
    _set_timeout(sock, deadline)
    sock.sendall(content)


def _set_timeout(sock: socket.socket, deadline: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        raise HandshakeFailed("the handshake timed out")
    sock.settimeout(left)


def _prove(secret: bytes, role: bytes, hello: bytes, nonce: bytes) -> bytes:
    return hmac.digest(secret, role + hello + nonce, hashlib.sha256)


def _check(proof: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(proof, expected):
        raise HandshakeFailed("wrong token, or a worker of another attempt")
