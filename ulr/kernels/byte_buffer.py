"""Copy a buffer of LightGBM, whose C API returns one byte per call."""

from __future__ import annotations

from ulr.kernels.atomics import call_getter
from ulr.kernels.jit import kernel


@kernel()
def copy_bytes(getter: int, buffer: int, target: int, size: int) -> int:
    """Copy `size` bytes to the address `target`; return how many were copied before an error.

    getter: address of a C function (buffer, int32 index, uint8 *) that returns 0 if it succeeds.
    """
    for index in range(size):
        if call_getter(getter, buffer, index, target + index) != 0:
            return index
    return size
