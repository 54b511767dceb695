"""Collectives between the two ranks of this process, through shared memory.

They replace a pair of sockets, where an exchange takes a hundred microseconds. LightGBM calls the
compiled functions of `kernels.collectives` directly. Where they cannot be used, `connected_pair`
of `communicator` does the same.
"""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import threading
import time
from collections.abc import Iterator, Sequence

import numpy as np

from ulr.kernels import collectives as kernel
from ulr.training.distributed.communicator import Communicator, connected_pair
from ulr.training.distributed.peer import PeerLost

UNKNOWN_LAYOUT = "this version of LightGBM has another layout of the sums at the root"
_PLATFORMS = {"linux", "darwin"}  # with POSIX threads, whose ids are those of Python
_MACHINES = {"x86_64", "aarch64", "arm64"}
_FREE, _RESERVED = 0, -1  # thread ids of the table's entries without a thread
_CACHE_LINE_WORDS = 8
_table_lock = threading.Lock()
os.register_at_fork(after_in_child=lambda: kernel.TABLE.fill(_FREE))  # its threads are gone


class LocalCommunicator:
    """One of two ranks. The block of the context manager must run on the rank's thread."""

    size = 2

    def __init__(self, rank: int, state: np.ndarray, entry: int, reasons: list[str]) -> None:
        self.rank, self.state = rank, state
        self._address, self._entry, self._reasons = state.ctypes.data, entry, reasons
        self.functions = kernel.compile_collectives()

    def __enter__(self) -> LocalCommunicator:
        kernel.TABLE[self._entry] = threading.get_ident(), self._address
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._reasons.append(f"{type(error).__name__}: {error}")
        self.functions.leave(self._address)
        kernel.TABLE[self._entry, 0] = _RESERVED

    @property
    def seconds(self) -> float:
        """Seconds in collectives."""
        return float(self.state[kernel.BUSY_NS]) / 1e9

    @property
    def calls(self) -> int:
        """Number of collectives."""
        return int(self.state[kernel.CALLS])

    @property
    def bytes(self) -> int:
        """Bytes for the peer."""
        return int(self.state[kernel.BYTES])

    def sum(self, totals: np.ndarray) -> np.ndarray:
        """Return the sum of int64 or float64 arrays over both ranks, equal on both."""
        own = np.ascontiguousarray(totals)
        received = np.empty_like(own)
        self.functions.exchange(self._address, own.ctypes.data, received.ctypes.data, own.nbytes)
        self.check()
        return own + received

    def check(self) -> None:
        """Raise the first error of a collective."""
        error = self.state[kernel.ERROR]
        if error == kernel.UNKNOWN_LAYOUT:
            raise RuntimeError(UNKNOWN_LAYOUT)
        if error == kernel.PEER_LEFT:
            reason = self._reasons[0] if self._reasons else "it finished early"
            raise PeerLost(f"worker {1 - self.rank} stopped: {reason}")


@contextlib.contextmanager
def local_pair() -> Iterator[Sequence[LocalCommunicator | Communicator]]:
    """Yield the communicators of two ranks that are threads of this process."""
    entries = _reserve(2) if _is_available() else []
    if not entries:
        yield connected_pair()
        return
    states, pipes, reasons = _new_states(), [os.pipe(), os.pipe()], list[str]()
    for rank, state in enumerate(states):
        state[kernel.RANK], state[kernel.PEER] = rank, states[1 - rank].ctypes.data
        state[kernel.READ_END], state[kernel.WRITE_END] = pipes[rank][0], pipes[1 - rank][1]
        state[kernel.CLOCK], state[kernel.SPIN_NS] = time.CLOCK_MONOTONIC, kernel.MAX_SPIN_NS
    try:
        yield [LocalCommunicator(rank, states[rank], entries[rank], reasons) for rank in range(2)]
    finally:
        kernel.TABLE[entries] = _FREE
        for end in (end for pipe in pipes for end in pipe):
            os.close(end)


def _is_available() -> bool:
    if sys.platform not in _PLATFORMS or platform.machine() not in _MACHINES:
        return False
    try:
        kernel.compile_collectives()
    except Exception:  # sockets give the same model
        return False
    return True


def _reserve(count: int) -> list[int]:
    """Return free entries of the table, or none if there are too few."""
    with _table_lock:
        free = np.flatnonzero(kernel.TABLE[:, 0] == _FREE)[:count]
        if free.size < count:
            return []
        kernel.TABLE[free, 0] = _RESERVED
        return [int(entry) for entry in free]


def _new_states() -> list[np.ndarray]:
    """Return two states that share no cache line."""
    words = np.zeros(2 * kernel.WORDS + _CACHE_LINE_WORDS, np.int64)
    skip = -(words.ctypes.data // 8) % _CACHE_LINE_WORDS
    return [words[skip + rank * kernel.WORDS :][: kernel.WORDS] for rank in range(2)]
