"""Reduce-scatter and allgather between two threads of this process, as C functions for LightGBM.

LightGBM calls a function pointer without an argument of ours. The functions therefore look up the
state of the calling thread in a table, by its thread id. A state is an array of words (int64); the
peer reads the first ones.

An exchange publishes the address of a block, meets the peer, reads the peer's block and meets the
peer again, so that no block changes while it is read. Short blocks are copied to the state first,
where they stay until the next exchange but one: one meeting suffices. A rank that arrives first
spins for some microseconds, then blocks on a pipe. If the peer has left, the output is zeroed and
the error is recorded: an exception cannot pass through LightGBM.

Cached code contains the values of constants: addresses and settings are in the table and in the
states.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from numba import cfunc, njit

from ulr.kernels.atomics import (
    INT,
    INTS,
    LONG,
    LONGS,
    TABLE_SYMBOL,
    VOID,
    call_reducer,
    clock_gettime,
    get,
    int32_pointer,
    memmove,
    memset,
    pthread_self,
    read,
    swap,
    table_address,
    write,
)
from ulr.kernels.jit import is_cached_safely

THREADS = 64  # entries of the table
TABLE = np.zeros((THREADS, 2), np.int64)  # thread id, address of its state

# Words of a state: those that the peer reads, and those of the rank itself on other cache lines.
ARRIVED, SLEEPING, LEFT, _ADDRESS = 0, 1, 2, 3
RANK, PEER, READ_END, WRITE_END, CLOCK, SPIN_NS = 16, 17, 18, 19, 20, 21
ROWS, UNITS, ERROR, BUSY_NS, CALLS, BYTES = 22, 23, 24, 25, 26, 27
_TIME, _BYTE, _STAGED = 28, 30, 32
_STAGED_WORDS = 128
WORDS = _STAGED + 2 * _STAGED_WORDS
PEER_LEFT, UNKNOWN_LAYOUT = 1, 2  # values of ERROR
MAX_SPIN_NS, _MIN_SPIN_NS = 50_000, 1000
ROOT_BYTES = 24  # C++ tuple of a tree's root: sums of Hessian and gradient (float64), rows (int32)
_ROWS_OFFSETS = (16, 0)  # possible offsets of the rows; they depend on the C++ standard library


@njit
def _own_state() -> int:
    """Return the address of the calling thread's state."""
    table, thread = table_address(), pthread_self()
    for entry in range(THREADS):
        if get(table, 2 * entry) == thread:
            return int(get(table, 2 * entry + 1))
    return 0


@njit
def _now(state: int) -> int:
    """Return nanoseconds of the monotonic clock."""
    clock_gettime(get(state, CLOCK), state + 8 * _TIME)
    return int(get(state, _TIME) * 1_000_000_000 + get(state, _TIME + 1))


@njit
def _wake(state: int) -> None:
    """Unblock the peer if it is blocked or about to block."""
    if swap(get(state, PEER), SLEEPING, 0) == 1:
        write(get(state, WRITE_END), state + 8 * _BYTE, 1)


@njit
def _is_due(peer: int, meeting: int) -> bool:
    return bool(get(peer, ARRIVED) >= meeting or get(peer, LEFT) == 1)


@njit
def _sleep(state: int, meeting: int) -> None:
    """Block until the peer arrives at a meeting or leaves."""
    swap(state, SLEEPING, 1)
    if _is_due(get(state, PEER), meeting) and swap(state, SLEEPING, 0) == 1:
        return  # the peer has not seen the flag: it does not write
    while read(get(state, READ_END), state + 8 * _BYTE, 1) != 1:
        pass  # a signal interrupted it


@njit
def _meet(state: int) -> bool:
    """Return once the peer is at the same meeting; return False if it has left instead."""
    peer, meeting = get(state, PEER), get(state, ARRIVED) + 1
    swap(state, ARRIVED, meeting)
    _wake(state)
    if not _is_due(peer, meeting):
        spin, end = get(state, SPIN_NS), _now(state) + get(state, SPIN_NS)
        while not _is_due(peer, meeting) and _now(state) < end:
            pass
        if _is_due(peer, meeting):
            swap(state, SPIN_NS, min(2 * spin, MAX_SPIN_NS))
        else:
            while not _is_due(peer, meeting):  # the peer may wake this rank for an earlier meeting
                _sleep(state, meeting)
            swap(state, SPIN_NS, max(spin // 2, _MIN_SPIN_NS))
    if get(peer, ARRIVED) < meeting:
        swap(state, ERROR, PEER_LEFT)
        return False
    return True


@njit
def _publish(state: int, block: int) -> bool:
    """Offer a block to the peer and meet it. Two words alternate: the peer may read one later."""
    swap(state, _ADDRESS + get(state, CALLS) % 2, block)
    return _meet(state)


@njit
def _received(state: int) -> int:
    """Return the address of the block that the peer has published in this exchange."""
    return int(get(get(state, PEER), _ADDRESS + get(state, CALLS) % 2))


@njit
def _swap_blocks(state: int, block: int, size: int, target: int, target_size: int) -> bool:
    """Send a block to the peer and copy the peer's block to `target`; sizes are in bytes."""
    short = max(size, target_size) <= 8 * _STAGED_WORDS
    if short:
        staged = state + 8 * (_STAGED + get(state, CALLS) % 2 * _STAGED_WORDS)
        memmove(staged, block, size)
        block = staged
    if not _publish(state, block):
        return False
    memmove(target, _received(state), target_size)
    return short or _meet(state)


@njit
def _scale_rows(state: int, root: int) -> bool:
    """Convert the rows in the sums of a tree's root to units; return False if there are none."""
    for offset in _ROWS_OFFSETS:
        rows = int32_pointer(root + offset)
        if rows[0] == get(state, ROWS):
            rows[0] = get(state, ROWS) * get(state, UNITS)
            return True
    swap(state, ERROR, UNKNOWN_LAYOUT)
    return False


@njit
def _count(state: int, begin: int, size: int) -> None:
    swap(state, CALLS, get(state, CALLS) + 1)
    swap(state, BYTES, get(state, BYTES) + size)
    swap(state, BUSY_NS, get(state, BUSY_NS) + _now(state) - begin)


def _reduce_scatter(
    content: int, size: int, item: int, starts: Any, lengths: Any, blocks: int, output: int,
    output_size: int, reducer: Any,
) -> None:  # fmt: skip
    state = _own_state()
    begin, rank = _now(state), get(state, RANK)
    own, other, length = content + starts[rank], content + starts[1 - rank], lengths[rank]
    done = get(state, ERROR) == 0 and _publish(state, other)
    if done:
        received = _received(state)
        memmove(output, received if rank else own, length)  # rank 0's block first
        call_reducer(reducer[0], own if rank else received, output, item, length)
        done = _meet(state)
    if not done:
        memset(output, 0, output_size)
    _count(state, begin, lengths[1 - rank])


def _allgather(
    content: int, size: int, starts: Any, lengths: Any, blocks: int, output: int, output_size: int
) -> None:
    state = _own_state()
    begin, rank = _now(state), get(state, RANK)
    own, other = output + starts[rank], output + starts[1 - rank]
    memmove(own, content, size)  # the input may be a part of the output
    done = get(state, ERROR) == 0 and (size != ROOT_BYTES or _scale_rows(state, own))
    if not (done and _swap_blocks(state, own, size, other, lengths[1 - rank])):
        memset(output, 0, output_size)
    _count(state, begin, size)


def _exchange(state: int, content: int, target: int, size: int) -> int:
    begin = _now(state)
    done = get(state, ERROR) == 0 and _swap_blocks(state, content, size, target, size)
    _count(state, begin, size)
    return 0 if done else 1


def _leave(state: int) -> int:
    swap(state, LEFT, 1)
    _wake(state)
    return 0


class Collectives(NamedTuple):
    """The compiled functions.

    reduce_scatter, allgather   addresses, for LightGBM
    exchange(state, content, target, size)   copy the peer's content to target; return 1 if it left
    leave(state)   take no part in further meetings
    """

    reduce_scatter: int
    allgather: int
    exchange: Any
    leave: Any


@functools.cache
def compile_collectives() -> Collectives:
    """Return the functions, compiled or from numba's cache."""
    llvm.add_symbol(TABLE_SYMBOL, TABLE.ctypes.data)

    def compiled(function: Any, signature: Any) -> Any:
        try:
            return cfunc(signature, cache=is_cached_safely(function))(function)
        except (RuntimeError, OSError):  # there is no folder that numba can write to
            return cfunc(signature)(function)

    gather = (LONG, INT, INTS, INTS, INT, LONG, INT)
    scatter = (LONG, INT, INT, INTS, INTS, INT, LONG, INT, LONGS)
    return Collectives(
        compiled(_reduce_scatter, VOID(*scatter)).address,
        compiled(_allgather, VOID(*gather)).address,
        compiled(_exchange, INT(LONG, LONG, LONG, LONG)).ctypes,
        compiled(_leave, INT(LONG)).ctypes,
    )
