"""Named random streams: the same (seed, name, numbers) gives the same draws on any machine.

Each stream is a counter-based Philox generator, so a task's draws do not depend on other tasks.
"""

from __future__ import annotations

import hashlib

import numpy as np

from ulr.kernels.hashing import GOLDEN, splitmix64


def stream(seed: int, name: str, *numbers: int) -> np.random.Generator:
    """Return an independent generator for one named piece of work."""
    digest = hashlib.sha256(repr((seed, name, *numbers)).encode()).digest()
    key = np.frombuffer(digest[:16], np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def scrambled_ids(first: int, count: int, seed: int) -> np.ndarray:
    """Return distinct ids for the numbers first .. first + count - 1.

    uint8 (ASCII), count x 16 hexadecimal digits. Splitmix64's finaliser is a bijection of 64-bit
    words, so no two pages of a log have the same id.
    """
    salt = np.uint64(seed * int(GOLDEN) % 2**64)
    x = splitmix64(np.arange(first, first + count, dtype=np.uint64) + salt)
    digits = x.astype(">u8").view(np.uint8).reshape(count, 8)
    nibbles = np.empty((count, 16), np.uint8)
    nibbles[:, 0::2], nibbles[:, 1::2] = digits >> 4, digits & 15
    return np.frombuffer(b"0123456789abcdef", np.uint8)[nibbles]
