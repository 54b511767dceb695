"""Swap buckets: the name of an experiment, and the permutation that its swapped arm applies.

A bucket names two sides of equal length. ``1:5`` exchanges positions 1 and 5; ``1,2:4,7`` brings
the pair at (4,7) to (1,2). Sides may overlap (``1,2:2,5``): the second side's documents go to the
first side's positions in order, and the displaced documents fill the vacated positions in order.
Positions are 1-based. ``shuffle`` shows the whole page in uniformly random order, ``shuffle:5`` the
first five positions; such a bucket has no arms. This file needs the standard library only, so a
serving system can copy it.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

MAX_SIDE = 2
SHUFFLE = "shuffle"


class Bucket(NamedTuple):
    """A parsed bucket: the swapped arm moves the documents at `source` to `target`.

    shuffled: None, or the number of first positions in random order, 0 for the whole page.
    """

    target: tuple[int, ...]
    source: tuple[int, ...]
    shuffled: int | None = None

    @property
    def name(self) -> str:
        """The bucket as written in the log."""
        if self.shuffled is not None:
            return f"{SHUFFLE}:{self.shuffled}" if self.shuffled else SHUFFLE
        return f"{_join(self.target)}:{_join(self.source)}"

    @property
    def last_position(self) -> int:
        """The deepest position of the bucket, which a page must have."""
        return (
            max(self.shuffled, 1) if self.shuffled is not None else max(self.target + self.source)
        )

    @property
    def positions(self) -> tuple[int, ...]:
        """Every position that differs between the arms, ascending; empty without arms."""
        return tuple(sorted({*self.target, *self.source}))


def _join(side: tuple[int, ...]) -> str:
    return ",".join(map(str, side))


def _parse_side(text: str) -> tuple[int, ...]:
    side = tuple(int(p) for p in text.split(",") if p.isascii() and p.isdigit() and p[0] != "0")
    if len(side) != text.count(",") + 1 or len(side) > MAX_SIDE:
        raise ValueError("a side is one position, or two joined by a comma")
    if any(a >= b for a, b in pairwise(side)):
        raise ValueError("the positions of a side must be ascending")
    return side


def _shuffled(text: str) -> int:
    """Return N of shuffle:N, and 0 for shuffle."""
    if text == SHUFFLE:
        return 0
    try:
        (depth,) = _parse_side(text.removeprefix(f"{SHUFFLE}:"))
    except ValueError:
        depth = 0
    if depth < 2:
        raise ValueError(f"bucket {text!r}: expected shuffle, or shuffle:N with N >= 2")
    return depth


@lru_cache(maxsize=4096)
def parse_bucket(text: str) -> Bucket:
    """Return the bucket of a name such as 1:5 or shuffle; ValueError if it is not one."""
    sides = text.split(":")
    if sides[0] == SHUFFLE:
        return Bucket((), (), _shuffled(text))
    if len(sides) != 2:
        raise ValueError(
            f"bucket {text!r}: expected two sides joined by ':', such as 1:5, or shuffle"
        )
    try:
        bucket = Bucket(_parse_side(sides[0]), _parse_side(sides[1]))
    except ValueError as error:
        raise ValueError(f"bucket {text!r}: {error}") from None
    if len(bucket.target) != len(bucket.source) or bucket.target == bucket.source:
        raise ValueError(f"bucket {text!r}: the sides must be two different sets of equal size")
    return bucket


def is_shuffle(text: str | None) -> bool:
    """Return whether the name of a bucket, or null, means a shuffle."""
    return text is not None and text.partition(":")[0] == SHUFFLE


def permutation(bucket: Bucket, length: int) -> list[int]:
    """Return the original index of the document that the swapped arm shows at each index.

    A shuffle has another order on every page; its permutation here is the identity.

    >>> permutation(parse_bucket("1:3"), 4)
    [2, 1, 0, 3]
    >>> permutation(parse_bucket("1,2:2,5"), 5)
    [1, 4, 2, 3, 0]
    """
    order = list(range(length))
    displaced = [p for p in bucket.target if p not in bucket.source]
    vacated = [p for p in bucket.source if p not in bucket.target]
    moves = [*zip(bucket.target, bucket.source, strict=True), *zip(vacated, displaced, strict=True)]
    for to, origin in moves:
        order[to - 1] = origin - 1
    return order
