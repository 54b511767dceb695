"""Mutual authentication of two workers of one training attempt.

    initiator  magic, its rank, the responder's rank, number of ranks, nonce
    responder  nonce, HMAC(secret, "responder", all bytes so far)
    initiator  HMAC(secret, "initiator", all bytes so far)
    responder  one byte: accepted

The secret is never sent. An unexpected byte ends only the handshake that it arrived in. Deadlines
are values of `time.monotonic`.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
import time

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
    sock: socket.socket, secret: bytes, *, rank: int, to: int, size: int, deadline: float
) -> None:
    """Authenticate rank `rank` to rank `to` of `size`, and verify the other side."""
    hello = _HELLO.pack(_MAGIC, rank, to, size, os.urandom(_NONCE_BYTES))
    _send(sock, hello, deadline)
    reply = _receive(sock, _NONCE_BYTES + _PROOF_BYTES, deadline)
    nonce, proof = reply[:_NONCE_BYTES], reply[_NONCE_BYTES:]
    _check(proof, _prove(secret, b"responder", hello, nonce))
    _send(sock, _prove(secret, b"initiator", hello, nonce), deadline)
    if _receive(sock, 1, deadline) != _ACCEPTED:
        raise HandshakeFailed("unexpected last byte of the handshake")


def respond(sock: socket.socket, secret: bytes, *, rank: int, size: int, deadline: float) -> int:
    """Verify an initiator and return its rank. It is connected only after `accept`."""
    hello = _receive(sock, _HELLO.size, deadline)
    magic, initiator, to, count, _ = _HELLO.unpack(hello)
    if magic != _MAGIC or to != rank or count != size or not rank < initiator < size:
        raise HandshakeFailed("unexpected first message of the handshake")
    nonce = os.urandom(_NONCE_BYTES)
    _send(sock, nonce + _prove(secret, b"responder", hello, nonce), deadline)
    _check(_receive(sock, _PROOF_BYTES, deadline), _prove(secret, b"initiator", hello, nonce))
    return initiator


def accept(sock: socket.socket, deadline: float) -> None:
    """Confirm the connection to a verified initiator."""
    _send(sock, _ACCEPTED, deadline)


def _receive(sock: socket.socket, size: int, deadline: float) -> bytes:
    content = b""
    while len(content) < size:
        _set_timeout(sock, deadline)
        piece = sock.recv(size - len(content))
        if not piece:
            raise HandshakeFailed("the other side disconnected during the handshake")
        content += piece
    return content


def _send(sock: socket.socket, content: bytes, deadline: float) -> None:
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
