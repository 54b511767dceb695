"""LightGBM's collectives over a `Communicator`, through its C API for external networks.

LightGBM's own sockets listen on every address without authentication, and block for ever when a
peer disconnects. Here a collective fails when a peer is lost. An exception cannot pass through
LightGBM's C++ code: it is stored, the output is zeroed, and `check` raises it once LightGBM has
returned.

The network belongs to the thread that opened it: Booster and updates must run on the same thread.

One message is modified: the number of rows at the root. At the start of a tree LightGBM sums the
rows of all ranks. It then estimates the rows of a node as that sum times the node's fraction of the
Hessian, rounded to an integer. If the Hessians of a node's rows are very small compared with the
others, the estimate is 0 rows: its split is rejected, or training ends with "Check failed". The sum
is therefore sent in units of a fraction of a row.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Callable, Iterator
from typing import Any

from lightgbm.basic import _LIB, _safe_call

from ulr.kernels.collectives import ROOT_BYTES, ROWS, UNITS
from ulr.training.distributed.communicator import Communicator
from ulr.training.distributed.local_communicator import UNKNOWN_LAYOUT, LocalCommunicator
from ulr.training.distributed.seal import Buffer

_INT, _INT32, _POINTER = ctypes.c_int, ctypes.c_int32, ctypes.c_void_p
_SIZES = ctypes.POINTER(_INT32)
# input, output += input, bytes per item, bytes
_REDUCER = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _INT, _INT32)
# input, its bytes, bytes per item, start and length of each rank's block, number of blocks,
# output (the sum of this rank's block), its bytes, the reducer by reference
_REDUCE_SCATTER = ctypes.CFUNCTYPE(None, _POINTER, _INT32, _INT, _SIZES, _SIZES, _INT, _POINTER,
                                   _INT32, ctypes.POINTER(_POINTER))  # fmt: skip
# input, its bytes, start and length of each rank's block, number of blocks, output, its bytes
_ALLGATHER = ctypes.CFUNCTYPE(None, _POINTER, _INT32, _SIZES, _SIZES, _INT, _POINTER, _INT32)

ROOT_UNITS = 2**30  # upper bound for the rows of all ranks, in units
_ROWS_OFFSETS = (16, 0)  # possible offsets of the rows; they depend on the C++ standard library


def units_per_row(total_rows: int) -> int:
    """Return the units of one row, given the rows of all ranks."""
    return max(1, ROOT_UNITS // max(total_rows, 1))


class Network:
    """The collectives that LightGBM calls. rows: rows of this rank."""

    def __init__(self, communicator: Communicator, rows: int, units: int) -> None:
        self.communicator, self.rows, self.units = communicator, rows, units
        self.error: BaseException | None = None
        self._reducers: dict[int, Any] = {}
        # LightGBM stores bare pointers: keep references as long as it may call these two.
        self.reduce_scatter = _REDUCE_SCATTER(self._reduce_scatter)
        self.allgather = _ALLGATHER(self._allgather)

    def check(self) -> None:
        """Raise the first error of a collective."""
        if self.error is not None:
            raise self.error

    def _reduce_scatter(self, *arguments: Any) -> None:
        content, size, item, starts, lengths, blocks, output, output_size, reducer = arguments
        length = lengths[self.communicator.rank]
        try:
            self.check()
            view = _view(content, size)
            parts = [view[starts[b] : starts[b] + lengths[b]] for b in range(blocks)]
            # Every part has exactly the bytes that the reducer reads.
            received = self.communicator.exchange(parts, [length] * blocks)
            add = self._reducer(reducer[0])
            ctypes.memmove(output, _pointer(received[0]), length)
            for part in received[1:]:
                add(_pointer(part), output, item, length)
        except BaseException as error:
            self.error = self.error or error
            ctypes.memset(output, 0, output_size)

    def _allgather(self, *arguments: Any) -> None:
        content, size, starts, lengths, blocks, output, output_size = arguments
        rank = self.communicator.rank
        try:
            self.check()
            # The input may be a part of the output: move it before other blocks are written.
            ctypes.memmove(output + starts[rank], content, size)
            own = _view(output + starts[rank], size)
            if size == ROOT_BYTES:
                own[:] = self._scale_rows(own)
            parts = self.communicator.allgather(own, lengths[:blocks])
            for block, part in enumerate(parts):
                if block != rank:
                    ctypes.memmove(output + starts[block], _pointer(part), lengths[block])
        except BaseException as error:
            self.error = self.error or error
            ctypes.memset(output, 0, output_size)

    def _scale_rows(self, sums: Buffer) -> bytearray:
        """Return the sums of a tree's root with its rows converted to units."""
        message = bytearray(sums)
        for offset in _ROWS_OFFSETS:
            if struct.unpack_from("i", message, offset)[0] == self.rows:
                struct.pack_into("i", message, offset, self.rows * self.units)
                return message
        raise RuntimeError(UNKNOWN_LAYOUT)

    def _reducer(self, pointer: int) -> Any:
        if pointer not in self._reducers:
            self._reducers[pointer] = _REDUCER(pointer)
        return self._reducers[pointer]


@contextlib.contextmanager
def open_network(
    communicator: Communicator | LocalCommunicator, rows: int, units: int
) -> Iterator[Callable[[], None]]:
    """Connect LightGBM, on this thread, to the other ranks until the block ends.

    Yield a function that raises the first error of a collective, for after an update.
    """
    if isinstance(communicator, LocalCommunicator):
        communicator.state[[ROWS, UNITS]] = rows, units
        check = communicator.check
        functions = [ctypes.c_void_p(address) for address in communicator.functions[:2]]
    else:
        network = Network(communicator, rows, units)
        check = network.check
        callbacks = network.reduce_scatter, network.allgather
        functions = [ctypes.cast(function, ctypes.c_void_p) for function in callbacks]
    if communicator.size == 1:
        yield check
        return
    _silence_thread()
    _safe_call(
        _LIB.LGBM_NetworkInitWithFunctions(
            ctypes.c_int(communicator.size),
            ctypes.c_int(communicator.rank),
            *functions,
        )
    )
    try:
        yield check
    finally:
        _safe_call(_LIB.LGBM_NetworkFree())


def _silence_thread() -> None:
    """Silence LightGBM's log on this thread.

    LightGBM sets the log level, which is per thread, when it parses parameters.
    """
    count = ctypes.c_int()
    _safe_call(_LIB.LGBM_GetSampleCount(ctypes.c_int32(1), b"verbosity=-1", ctypes.byref(count)))


def _view(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def _pointer(content: Any) -> int | bytes:
    """Return bytes or a writable buffer as an argument of a C function."""
    if isinstance(content, bytes):
        return content
    return ctypes.addressof(ctypes.c_char.from_buffer(content)) if content else 0
