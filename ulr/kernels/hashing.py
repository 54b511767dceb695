"""XXH64, bit for bit as Spark's `xxhash64` computes it, and splitmix64.

Strings come as Arrow stores them: `offsets` (int32, n + 1) into one `data` buffer of bytes (uint8).
XXH64 is written here because no installed library hashes a whole Arrow column as Spark does.
"""

from __future__ import annotations

from typing import Any

import numba.extending
import numpy as np
from numba import types
from numba.core import cgutils

from ulr.kernels.jit import kernel

intrinsic: Any = numba.extending.intrinsic  # its type asks callers for the typing context, too

SEED = np.uint64(42)  # Spark's seed

P1 = np.uint64(0x9E3779B185EBCA87)
P2 = np.uint64(0xC2B2AE3D27D4EB4F)
P3 = np.uint64(0x165667B19E3779F9)
P4 = np.uint64(0x85EBCA77C2B2AE63)
P5 = np.uint64(0x27D4EB2F165667C5)

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the increment of splitmix64


@intrinsic
def _load64(typingctx: Any, data: Any, at: Any) -> Any:
    """Return the eight bytes from data[at] as a little-endian word; numba has no unaligned load."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        proxy: Any = cgutils.create_struct_proxy  # untyped in numba
        array = proxy(signature.args[0])(context, builder, args[0])
        pointer = builder.gep(array.data, [args[1]])
        word = context.get_value_type(types.uint64)
        return builder.load(builder.bitcast(pointer, word.as_pointer()), align=1)

    return types.uint64(data, types.int64), codegen


@kernel(inline="always")
def _rotate(x: np.uint64, bits: np.uint64) -> np.uint64:
    return (x << bits) | (x >> (np.uint64(64) - bits))


@kernel(inline="always")
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(lane + word * P2, np.uint64(31)) * P1


@kernel(inline="always")
def _avalanche(h: np.uint64) -> np.uint64:
    h = (h ^ (h >> np.uint64(33))) * P2
    h = (h ^ (h >> np.uint64(29))) * P3
    return h ^ (h >> np.uint64(32))


@kernel(inline="always")
def hash_word(word: np.uint64, seed: np.uint64) -> np.uint64:
    """Return XXH64 of one 8-byte integer."""
    h = seed + P5 + np.uint64(8)
    h = _rotate(h ^ _round(np.uint64(0), word), np.uint64(27)) * P1 + P4
    return _avalanche(h)


@kernel()
def _hash_long(data: np.ndarray, at: int, end: int, seed: np.uint64) -> np.uint64:
    """Fold the whole 32-byte stripes of a string of 32 bytes or more."""
    a, b, c, d = seed + P1 + P2, seed + P2, seed, seed - P1
    while at + 32 <= end:
        a = _round(a, _load64(data, at))
        b = _round(b, _load64(data, at + 8))
        c = _round(c, _load64(data, at + 16))
        d = _round(d, _load64(data, at + 24))
        at += 32
    h = _rotate(a, np.uint64(1)) + _rotate(b, np.uint64(7))
    h += _rotate(c, np.uint64(12)) + _rotate(d, np.uint64(18))
    for lane in (a, b, c, d):
        h = (h ^ _round(np.uint64(0), lane)) * P1 + P4
    return h


@kernel(inline="always")
def _hash_bytes(data: np.ndarray, at: int, end: int, seed: np.uint64) -> np.uint64:
    length = end - at
    if length >= 32:
        h = _hash_long(data, at, end, seed)
        at += length - length % 32
    else:
        h = seed + P5
    h += np.uint64(length)
    while at + 8 <= end:
        h = _rotate(h ^ _round(np.uint64(0), _load64(data, at)), np.uint64(27)) * P1 + P4
        at += 8
    if at + 4 <= end:
        word = np.uint64(data[at]) | np.uint64(data[at + 1]) << np.uint64(8)
        word |= np.uint64(data[at + 2]) << np.uint64(16) | np.uint64(data[at + 3]) << np.uint64(24)
        h = _rotate(h ^ word * P1, np.uint64(23)) * P2 + P3
        at += 4
    while at < end:
        h = _rotate(h ^ np.uint64(data[at]) * P5, np.uint64(11)) * P1
        at += 1
    return _avalanche(h)


@kernel()
def hash_strings(offsets: np.ndarray, data: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Return XXH64 of every string, uint64.

    seeds: uint64, one seed for all strings, or one for each (to chain columns).
    """
    n = offsets.size - 1
    out = np.empty(n, np.uint64)
    one = seeds.size == 1
    for i in range(n):
        seed = seeds[0] if one else seeds[i]
        out[i] = _hash_bytes(data, offsets[i], offsets[i + 1], seed)
    return out


@kernel()
def hash_lists(starts: np.ndarray, lengths: np.ndarray, words: np.ndarray) -> np.ndarray:
    """Return a hash (uint64) of every list of 64-bit words, chained as Spark chains an array.

    starts, lengths: int64 per list; words: uint64.
    """
    n = starts.size
    out = np.empty(n, np.uint64)
    for i in range(n):
        h = SEED
        for j in range(starts[i], starts[i] + lengths[i]):
            h = hash_word(words[j], h)
        out[i] = h
    return out


@kernel()
def hash_words(words: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """Return XXH64 of each word (uint64), each with its seed (uint64)."""
    out = np.empty(words.size, np.uint64)
    for i in range(words.size):
        out[i] = hash_word(words[i], seeds[i])
    return out


def splitmix64(x: np.ndarray) -> np.ndarray:
    """Return splitmix64's finaliser of each word (uint64): a bijection that scatters the bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    scattered: np.ndarray = x ^ (x >> np.uint64(31))
    return scattered
