"""Atomic words, raw addresses and C functions for compiled code.

Numba's cache does not notice a change in this file: change the file of the compiled function, too.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

TABLE_SYMBOL = "ulr_collectives_table"
_types: Any = types
LONG, INT, VOID = _types.int64, _types.int32, _types.void
INTS, LONGS = _types.CPointer(INT), _types.CPointer(LONG)
_word, _ir_int = ir.IntType(64), ir.IntType(32)
_intrinsic: Any = intrinsic  # its results are called with the arguments of compiled code
pthread_self = _types.ExternalFunction("pthread_self", LONG())
clock_gettime = _types.ExternalFunction("clock_gettime", INT(INT, LONG))
read = _types.ExternalFunction("read", LONG(INT, LONG, LONG))
write = _types.ExternalFunction("write", LONG(INT, LONG, LONG))
memmove = _types.ExternalFunction("memmove", LONG(LONG, LONG, LONG))
memset = _types.ExternalFunction("memset", LONG(LONG, INT, LONG))


@_intrinsic
def get(_: Any, state: Any, word: Any) -> Any:
    """Return a word of a state, in sequential consistency with all others."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_word_pointer(builder, *arguments), "seq_cst", 8)

    return LONG(LONG, LONG), generate


@_intrinsic
def swap(_: Any, state: Any, word: Any, value: Any) -> Any:
    """Set a word of a state and return its previous value, atomically."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = _word_pointer(builder, *arguments[:2])
        return builder.atomic_rmw("xchg", pointer, arguments[2], "seq_cst")

    return LONG(LONG, LONG, LONG), generate


def _word_pointer(builder: Any, state: Any, word: Any) -> Any:
    address = builder.add(state, builder.mul(word, ir.Constant(_word, 8)))
    return builder.inttoptr(address, _word.as_pointer())


@_intrinsic
def table_address(_: Any) -> Any:
    """Return the address that this process has registered as TABLE_SYMBOL."""

    def generate(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        symbol = builder.module.globals.get(TABLE_SYMBOL)
        if symbol is None:
            symbol = ir.GlobalVariable(builder.module, _word, TABLE_SYMBOL)
        return builder.ptrtoint(symbol, _word)

    return LONG(), generate


@_intrinsic
def int32_pointer(_: Any, address: Any) -> Any:
    """Return an address as a pointer to int32."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], _ir_int.as_pointer())

    return INTS(LONG), generate


@_intrinsic
def call_reducer(_: Any, reducer: Any, source: Any, target: Any, item: Any, size: Any) -> Any:
    """Call LightGBM's reducer: target += source, `size` bytes in items of `item` bytes."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        function = ir.FunctionType(ir.VoidType(), [pointer, pointer, _ir_int, _ir_int])
        source, target = (builder.inttoptr(address, pointer) for address in arguments[1:3])
        call = builder.inttoptr(arguments[0], function.as_pointer())
        builder.call(call, [source, target, *arguments[3:]])
        return context.get_dummy_value()

    return VOID(LONG, LONG, LONG, INT, INT), generate


@_intrinsic
def call_getter(_: Any, getter: Any, buffer: Any, index: Any, target: Any) -> Any:
    """Call a C function that copies byte `index` of a buffer to `target`; return its status."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        function = ir.FunctionType(_ir_int, [pointer, _ir_int, pointer])
        buffer, target = (builder.inttoptr(arguments[at], pointer) for at in (1, 3))
        call = builder.inttoptr(arguments[0], function.as_pointer())
        return builder.call(call, [buffer, builder.trunc(arguments[2], _ir_int), target])

    return INT(LONG, LONG, LONG, LONG), generate
