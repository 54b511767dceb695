"""Eight float64 values as one variable of a kernel: a vector register, or as many as it takes.

The compiler does not vectorize the short loops of a list of ten documents by itself: it cannot
prove that their arrays do not overlap. Arithmetic on lanes is written like that on floats. Every
lane is rounded as a float64 would be, so that results do not depend on the processor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.extending import lower_builtin, models, register_model, type_callable

intrinsic: Any = extending.intrinsic  # its type asks callers for the typing context, too

LANES = 8
_DOUBLES = ir.VectorType(ir.DoubleType(), LANES)
_INTEGERS = ir.VectorType(ir.IntType(64), LANES)
# Vector type of an array's elements, and the instruction that converts them to float64.
_STORED = {
    types.float64: (_DOUBLES, "bitcast"),
    types.float32: (ir.VectorType(ir.FloatType(), LANES), "fpext"),
    types.int32: (ir.VectorType(ir.IntType(32), LANES), "sitofp"),
}
_ALL_BUT_SIGN = ir.Constant(_INTEGERS, [2**63 - 1] * LANES)
_INDEX = ir.Constant(_DOUBLES, [float(lane) for lane in range(LANES)])
_ZEROS, _ONES = (ir.Constant(_DOUBLES, [value] * LANES) for value in (0.0, 1.0))


class _Lanes(types.Type):
    """The type of eight float64 values."""


_lanes = _Lanes("lanes")


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: _Lanes) -> None:
        super().__init__(manager, lanes, _DOUBLES)


def _define(symbol: Callable[..., Any], instruction: str) -> None:
    """Let an operator on two lanes emit this instruction."""

    @type_callable(symbol)
    def typing(_: Any) -> Callable[..., Any]:
        def result(a: types.Type, b: types.Type) -> types.Type | None:
            return _lanes if isinstance(a, _Lanes) and isinstance(b, _Lanes) else None

        return result

    @lower_builtin(symbol, _Lanes, _Lanes)
    def lowering(_: Any, builder: ir.IRBuilder, __: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)


for _symbol, _instruction in (
    (operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):  # fmt: skip
    _define(_symbol, _instruction)


def _address(context: Any, builder: ir.IRBuilder, array_type: Any, array: Any, at: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [at])


@intrinsic
def load(_: Any, array: Any, at: Any) -> Any:
    """Return array[at : at + 8]; array: float64, float32 or int32, contiguous."""
    vector, convert = _STORED[array.dtype]

    def emit(context: Any, builder: ir.IRBuilder, _: Any, args: Any) -> Any:
        address = _address(context, builder, array, *args)
        values = builder.load(builder.bitcast(address, vector.as_pointer()))
        values.align = array.dtype.bitwidth // 8
        return getattr(builder, convert)(values, _DOUBLES)

    return _lanes(array, types.intp), emit


@intrinsic
def take(_: Any, table: Any, indices: Any) -> Any:
    """Return the elements of a table (float64, contiguous) at eight indices from 0."""

    def emit(context: Any, builder: ir.IRBuilder, _: Any, args: Any) -> Any:
        places, values = builder.fptoui(args[1], _INTEGERS), ir.Constant(_DOUBLES, ir.Undefined)
        for number in range(LANES):
            lane = ir.IntType(32)(number)
            place = builder.extract_element(places, lane)
            element = builder.load(_address(context, builder, table, args[0], place))
            values = builder.insert_element(values, element, lane)
        return values

    return indices(table, indices), emit


@intrinsic
def store(_: Any, array: Any, at: Any, values: Any) -> Any:
    """Set array[at : at + 8] (float64, contiguous)."""

    def emit(context: Any, builder: ir.IRBuilder, _: Any, args: Any) -> Any:
        address = _address(context, builder, array, *args[:2])
        instruction = builder.store(args[2], builder.bitcast(address, _DOUBLES.as_pointer()))
        instruction.align = array.dtype.bitwidth // 8
        return context.get_dummy_value()

    return types.void(array, types.intp, values), emit


@intrinsic
def splat(_: Any, value: Any) -> Any:
    """Return eight times the value, a float64."""

    def emit(_: Any, builder: ir.IRBuilder, __: Any, args: Any) -> Any:
        return _splat(builder, args[0])

    return _lanes(types.float64), emit


@intrinsic
def absolute(_: Any, values: Any) -> Any:
    """Return |x| of every lane."""

    def emit(_: Any, builder: ir.IRBuilder, __: Any, args: Any) -> Any:
        bits = builder.and_(builder.bitcast(args[0], _INTEGERS), _ALL_BUT_SIGN)
        return builder.bitcast(bits, _DOUBLES)

    return values(values), emit


@intrinsic
def positive(_: Any, values: Any) -> Any:
    """Return max(x, 0) of every lane."""

    def emit(_: Any, builder: ir.IRBuilder, __: Any, args: Any) -> Any:
        above = builder.fcmp_ordered(">", args[0], _ZEROS)
        return builder.select(above, args[0], _ZEROS)

    return values(values), emit


@intrinsic
def first(_: Any, values: Any, count: Any) -> Any:
    """Return the first `count` lanes, and 0 in the others."""

    def emit(_: Any, builder: ir.IRBuilder, __: Any, args: Any) -> Any:
        inside = builder.fcmp_ordered("<", _INDEX, _splat(builder, args[1]))
        return builder.select(inside, args[0], _ZEROS)

    return values(values, types.float64), emit


@intrinsic
def below(_: Any, values: Any, bounds: Any) -> Any:
    """Return 1 in the lanes that are less than their bound, 0 in the others."""

    def emit(_: Any, builder: ir.IRBuilder, __: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *args), _ONES, _ZEROS)

    return values(values, bounds), emit


@intrinsic
def before(_: Any, score: Any, place: Any, scores: Any, places: Any) -> Any:
    """Return 1 in the lanes that a document is ranked before, 0 in the others.

    A higher score comes first; of equal scores, the lower place.
    """

    def emit(_: Any, builder: ir.IRBuilder, __: Any, args: Any) -> Any:
        higher = builder.fcmp_ordered(">", args[0], args[2])
        equal = builder.fcmp_ordered("==", args[0], args[2])
        earlier = builder.and_(equal, builder.fcmp_ordered("<", args[1], args[3]))
        return builder.select(builder.or_(higher, earlier), _ONES, _ZEROS)

    return _lanes(score, place, scores, places), emit


@intrinsic
def total(_: Any, values: Any) -> Any:
    """Return the sum of the lanes: halves are added until one value is left."""

    def emit(_: Any, builder: ir.IRBuilder, __: Any, args: Any) -> Any:
        (values,), width = args, LANES
        while width > 1:
            width //= 2
            low, high = (_mask(range(start, start + width)) for start in (0, width))
            values = builder.fadd(
                builder.shuffle_vector(values, values, low),
                builder.shuffle_vector(values, values, high),
            )
        return builder.extract_element(values, ir.IntType(32)(0))

    return types.float64(values), emit


def _mask(lanes: Iterable[int]) -> ir.Constant:
    chosen = list(lanes)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(chosen)), chosen)


def _splat(builder: ir.IRBuilder, value: Any) -> Any:
    one = builder.insert_element(ir.Constant(_DOUBLES, ir.Undefined), value, ir.IntType(32)(0))
    return builder.shuffle_vector(one, one, _mask([0] * LANES))
