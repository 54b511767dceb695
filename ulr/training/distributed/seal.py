"""Encryption and authentication of the frames of one connection, by AES-256-GCM.

Each direction has its own key, derived by HKDF-SHA256 from the secret of the attempt and the
messages of the handshake: both nonces, both ranks, the number of ranks. The nonce of a frame is its
number in its direction, so no nonce is used twice with a key. The header is authenticated with the
content. A frame that was changed, repeated, omitted, reordered or sent back to its sender is
rejected.

Chosen by measurement. 200 KB take 21 µs on one core, against 60 µs with ChaCha20-Poly1305 and
113 µs with HMAC-SHA256, which does not encrypt; 444 bytes take 0.6, 1.1 and 1.8 µs.
"""

from __future__ import annotations

from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

Buffer = bytes | bytearray | memoryview
_KEY_BYTES, _NONCE_BYTES = 32, 12
TAG_BYTES = 16


class Keys(NamedTuple):
    """The keys of one side of a connection."""

    send: bytes
    receive: bytes


class FrameRejected(Exception):
    """The frame is not the next one that the other side sent."""


def derive_keys(secret: bytes, hello: bytes, nonce: bytes) -> tuple[bytes, bytes]:
    """Return the keys from the initiator to the responder, and back.

    hello: first message of the initiator, with its nonce and both ranks. nonce: of the responder.
    """
    derived = HKDF(SHA256(), 2 * _KEY_BYTES, salt=nonce, info=b"ulr training frames" + hello)
    keys = derived.derive(secret)
    return keys[:_KEY_BYTES], keys[_KEY_BYTES:]


class Sealer:
    """One direction of a connection: the side that sends calls `seal`, the other `open`."""

    overhead = TAG_BYTES

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._frames = 0

    def _next_nonce(self) -> bytes:
        self._frames += 1
        return self._frames.to_bytes(_NONCE_BYTES, "big")

    def seal(self, header: bytes, content: Buffer) -> bytes:
        """Return the encrypted content of the next frame, followed by its tag."""
        return self._cipher.encrypt(self._next_nonce(), content, header)

    def open(self, header: Buffer, sealed: Buffer) -> Buffer:
        """Return the content of the next frame, or raise `FrameRejected`."""
        try:
            return self._cipher.decrypt(self._next_nonce(), sealed, header)
        except InvalidTag:
            raise FrameRejected("changed, repeated or out of order") from None


class PlainSealer:
    """Frames in clear, for ranks that are threads of one process."""

    overhead = 0

    def seal(self, header: bytes, content: Buffer) -> Buffer:
        """Return the content."""
        return content

    def open(self, header: Buffer, sealed: Buffer) -> Buffer:
        """Return the content."""
        return sealed
