"""LightGBM's collectives carried by the mesh, through its public hook for outside networks.

LightGBM's own sockets listen on every address without a password, and spin for ever when a peer
leaves. Here a lost peer ends the collective. An exception cannot pass through LightGBM's C++, so
it is kept, the output is zeroed, and `check` raises it once LightGBM has returned.

The network belongs to the thread that opened it: Booster and updates must run there too.

One message is changed on its way. At the start of a tree LightGBM adds up everybody's rows, and
from then on estimates the rows of a node as that sum times its share of the Hessian, in whole
numbers. A node of few light rows beside heavy ones comes out as 0 rows: its split is refused, or
ends the training with "Check failed". So the sum is told in units of a fraction of a row.
"""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections.abc import Iterator
from typing import Any

from lightgbm.basic import _LIB, _safe_call

from ulr.training.distributed.communicator import Communicator

_SIZES = ctypes.POINTER(ctypes.c_int32)
_REDUCER = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int32
)  # input, output += input, bytes per item, bytes
_REDUCE_SCATTER = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,  # input
    ctypes.c_int32,  # its bytes
    ctypes.c_int,  # bytes per item
    _SIZES,  # where each worker's block starts
    _SIZES,  # how long it is
    ctypes.c_int,  # how many blocks
    ctypes.c_void_p,  # output: the sum of this worker's block
    ctypes.c_int32,  # its bytes
    ctypes.POINTER(ctypes.c_void_p),  # the reducer, by reference
)
_ALLGATHER = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_int32,
    _SIZES,
    _SIZES,
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int32,
)


ROOT_ROWS = 2**30  # what all rows together are told as, nearly
_ROOT = struct.calcsize("ddi4x")  # sums of Hessian and gradient, rows: a C++ tuple
_ROWS_AT = (16, 0)  # where rows are in it; the standard libraries differ


class Network:
    """The two collectives that LightGBM needs. rows: of this worker, and of all."""

    def __init__(self, mesh: Communicator, rows: int, total_rows: int) -> None:
        self.mesh, self.rows = mesh, rows
        self.units = max(1, ROOT_ROWS // max(total_rows, 1))
        self.error: BaseException | None = None
        self._reducers: dict[int, Any] = {}
        # LightGBM keeps bare pointers: these two must live as long as it may call them.
        self.reduce_scatter = _REDUCE_SCATTER(self._reduce_scatter)
        self.allgather = _ALLGATHER(self._allgather)

    def check(self) -> None:
        """Raise what went wrong inside a collective."""
        if self.error is not None:
            raise self.error

    def _reduce_scatter(self, *call: Any) -> None:
        content, size, item, starts, lengths, blocks, output, output_size, reducer = call
        rank = self.mesh.rank
        try:
            self.check()
            view = _view(content, size)
            parts = [view[starts[b] : starts[b] + lengths[b]] for b in range(blocks)]
            received = self.mesh.exchange(parts)
            add = self._reducer(reducer[0])
            ctypes.memmove(output, _address(received[0]), lengths[rank])
            for part in received[1:]:
                add(_address(part), output, item, lengths[rank])
        except BaseException as why:
            self.error = self.error or why
            ctypes.memset(output, 0, output_size)

    def _allgather(self, *call: Any) -> None:
        content, size, starts, lengths, _, output, output_size = call
        try:
            self.check()
            own = self._in_units(_view(content, size)) if size == _ROOT else _view(content, size)
            for block, part in enumerate(self.mesh.allgather(own)):
                ctypes.memmove(output + starts[block], _address(part), lengths[block])
        except BaseException as why:
            self.error = self.error or why
            ctypes.memset(output, 0, output_size)

    def _in_units(self, sums: memoryview) -> bytearray:
        """The sums of a tree's root with rows in finer units."""
        message = bytearray(sums)
        for at in _ROWS_AT:
            if struct.unpack_from("i", message, at)[0] == self.rows:
                struct.pack_into("i", message, at, self.rows * self.units)
                return message
        raise RuntimeError("LightGBM lays out its sums in a way unknown here; use another version")

    def _reducer(self, pointer: int) -> Any:
        if pointer not in self._reducers:
            self._reducers[pointer] = _REDUCER(pointer)
        return self._reducers[pointer]


@contextlib.contextmanager
def open_network(mesh: Communicator, rows: int, total_rows: int) -> Iterator[Network]:
    """LightGBM on this thread talks over the mesh until the block ends."""
    network = Network(mesh, rows, total_rows)
    if mesh.size > 1:
        _be_quiet()
        _safe_call(
            _LIB.LGBM_NetworkInitWithFunctions(
                ctypes.c_int(mesh.size),
                ctypes.c_int(mesh.rank),
                ctypes.cast(network.reduce_scatter, ctypes.c_void_p),
                ctypes.cast(network.allgather, ctypes.c_void_p),
            )
        )
    try:
        yield network
    finally:
        if mesh.size > 1:
            _safe_call(_LIB.LGBM_NetworkFree())


def _be_quiet() -> None:
    """LightGBM's log level belongs to the thread, and is set by whatever reads settings there."""
    count = ctypes.c_int()
    _safe_call(_LIB.LGBM_GetSampleCount(ctypes.c_int32(1), b"verbosity=-1", ctypes.byref(count)))


def _view(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


def _address(content: Any) -> int:
    """Where the bytes of a writable buffer begin."""
    return ctypes.addressof(ctypes.c_char.from_buffer(content)) if content else 0
