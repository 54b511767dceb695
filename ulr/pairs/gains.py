"""Gains of graded feedback: how much each level adds to the weight of a pair.

With levels y_1 < ... < y_L and gains g_l, a weight is the sum over levels of g_l - g_(l-1), with
g_0 = 0, times the weight of sessions with an event of level l or higher (docs/methods.md, section
4.10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from ulr.errors import UserError
from ulr.groups.levels import CLICKS
from ulr.kernels.layout import Histograms
from ulr.kernels.patterns import count_positions

NO_FEEDBACK: Mapping[str, float] = MappingProxyType({})
ONE_LEVEL = (1.0,)


def increments_of(gains: Mapping[str, float], names: Sequence[str]) -> tuple[float, ...]:
    """Return the gain of each level minus that of the level below.

    gains: by event; {}: any event has gain 1. names: the levels of the groups, lowest first. An
    event without a gain has that of the level below.
    """
    if not gains:
        return (1.0, *[0.0] * (len(names) - 1))
    ordered = sorted(gains, key=gains.__getitem__)
    if list(names) == list(CLICKS) and CLICKS[0] not in gains:
        names = ordered[:1]
    if missing := [name for name in ordered if name not in names]:
        raise UserError(
            f"log.feedback has the event {missing[0]}, which these groups do not count; they have "
            f"{', '.join(names)}; run `ulr groups` again for these dates, or leave it out"
        )
    known = [name for name in names if name in gains]
    if known != ordered:
        raise UserError(
            f"log.feedback orders the events as {', '.join(ordered)}, these groups as "
            f"{', '.join(known)}; keep the order of the gains, or run `ulr groups` again"
        )
    increments, below = [], 0.0
    for name in names:
        gain = gains.get(name, below)
        increments.append(gain - below)
        below = gain
    return tuple(increments)


def sum_clicks(
    levels: Sequence[Histograms], increments: Sequence[float], power: int = 1
) -> np.ndarray:
    """Return the sum of gain^power over the sessions of each document of a list.

    int64 if there is one level of gain 1: the clicks. Otherwise float64.
    """
    counts = [count_positions(level.sizes, level.patterns)[1] for level in levels]
    if len(levels) == 1 and increments[0] == 1:
        return counts[0]
    gains = np.cumsum(increments) ** power
    total: np.ndarray = sum(
        (more * own for more, own in zip(np.diff(gains, prepend=0.0), counts, strict=True)),
        np.zeros(counts[0].size),
    )
    return total
