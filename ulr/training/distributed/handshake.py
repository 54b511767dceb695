"""Two workers prove to each other that the driver sent both of them, for this attempt.

    caller    hello, its rank, whom it wants, how many there are, a nonce
    answerer  its own nonce, HMAC(secret, "answer", everything so far)
    caller    HMAC(secret, "call", everything so far)
    answerer  one byte: come in

The secret never travels. A byte that does not fit ends the talk, and only that talk.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
import time

HELLO = b"ulrmesh1"
_CALL = struct.Struct("!8sHHH16s")
_NONCE, _PROOF = 16, 32
WELCOME = b"\x01"


class Refused(Exception):
    """The other side is not one of us."""


def secret_for(token: str, attempt: int) -> bytes:
    """The key of one attempt: a worker left over from an earlier one does not get in."""
    return hmac.digest(token.encode(), f"attempt {attempt}".encode(), hashlib.sha256)


def call(sock: socket.socket, secret: bytes, *, rank: int, to: int, size: int, by: float) -> None:
    """Introduce worker `rank` to worker `to`; done or `Refused` by the deadline (monotonic)."""
    hello = _CALL.pack(HELLO, rank, to, size, os.urandom(_NONCE))
    _send(sock, hello, by)
    reply = receive(sock, _NONCE + _PROOF, by)
    nonce, proof = reply[:_NONCE], reply[_NONCE:]
    _check(proof, _prove(secret, b"answer", hello, nonce))
    _send(sock, _prove(secret, b"call", hello, nonce), by)
    if receive(sock, 1, by) != WELCOME:
        raise Refused("the answer to the handshake makes no sense")


def answer(sock: socket.socket, secret: bytes, *, rank: int, size: int, by: float) -> int:
    """The rank of an honest caller, or `Refused` by the deadline. `welcome` comes after."""
    hello = receive(sock, _CALL.size, by)
    magic, caller, wanted, count, _ = _CALL.unpack(hello)
    if magic != HELLO or wanted != rank or count != size or not rank < caller < size:
        raise Refused("the greeting makes no sense")
    nonce = os.urandom(_NONCE)
    _send(sock, nonce + _prove(secret, b"answer", hello, nonce), by)
    _check(receive(sock, _PROOF, by), _prove(secret, b"call", hello, nonce))
    return caller


def welcome(sock: socket.socket, by: float) -> None:
    """Tell the caller that there is a place for it."""
    _send(sock, WELCOME, by)


def receive(sock: socket.socket, size: int, by: float) -> bytes:
    """Exactly `size` bytes, before the deadline."""
    content = b""
    while len(content) < size:
        _until(sock, by)
        piece = sock.recv(size - len(content))
        if not piece:
            raise Refused("the other side hung up during the handshake")
        content += piece
    return content


def _send(sock: socket.socket, content: bytes, by: float) -> None:
    _until(sock, by)
    sock.sendall(content)


def _until(sock: socket.socket, by: float) -> None:
    left = by - time.monotonic()
    if left <= 0:
        raise Refused("the handshake took too long")
    sock.settimeout(left)


def _prove(secret: bytes, side: bytes, hello: bytes, nonce: bytes) -> bytes:
    return hmac.digest(secret, side + hello + nonce, hashlib.sha256)


def _check(given: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(given, expected):
        raise Refused("wrong token, or a worker of another attempt")
