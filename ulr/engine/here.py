"""Small work in the calling process, on every engine: a task elsewhere costs more than it saves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from ulr.engine.interface import Batches, Block, Exchange, Items, Rows, Source


def size_of(source: Source) -> float:
    """Return the bytes of a source; infinite if they are unknown."""
    if isinstance(source, Items):
        if source.sizes is not None:
            return sum(source.sizes)
        return float("inf") if source.size is None else source.size
    if isinstance(source, Rows):
        return float("inf")
    return sum(size_of(own) for own, _ in source.sends)


def map_here(source: Source, function: Callable[[Any], Batches]) -> list[pa.RecordBatch]:
    """Run the tasks of a source in this process; return the batches in their order."""
    return [batch for argument in _arguments(source) for batch in function(argument)]


def _arguments(source: Source) -> Iterator[Any]:
    """Yield what each task gets."""
    if isinstance(source, Items):
        yield from source.tasks(1)
    elif isinstance(source, Exchange):
        received: dict[int, list[Block]] = {}
        for own, send in source.sends:
            for argument in _arguments(own):
                for block in send(argument):
                    received.setdefault(block[0] % source.receivers, []).append(block)
        for task in sorted(received):
            yield iter(received.pop(task))
