"""How a pair table is built: a method's weight tables, and the options of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ulr.errors import UserError
from ulr.pairs.groupings import GROUPINGS
from ulr.pairs.weights import LABELS, weight_table
from ulr.propensity.examination import Examination

MISSING_FEATURES = ("drop", "error")


@dataclass(frozen=True)
class PairConfig:
    """A method's weights by session type and positions, and the options of the settings.

    tables, raw        (segments, 4, K, K), after and before clipping
    segments           name of a segment -> index of its table; any other segment uses table 0
    psi                (segments, K, K), only for `joint`
    co_click_variance  of the prior on co-clicks; None: to be estimated from the log
    """

    method: str
    tables: np.ndarray
    raw: np.ndarray
    segments: Mapping[str, int] = field(default_factory=dict)
    grouping: str = "ranking"
    session_weight: str = "none"
    missing_features: str = "drop"
    psi: np.ndarray | None = None
    co_click_variance: float | None = None

    @property
    def depth(self) -> int:
        """The number of positions with known examination, K."""
        return int(self.tables.shape[-1])


def make_pair_config(
    method: str,
    examination: Examination,
    by_segment: Mapping[str, Examination] | None = None,
    *,
    prs_clip: float = np.inf,
    propensity_floor: float = 0.0,
    weight_cap: float = np.inf,
    grouping: str = "ranking",
    session_weight: str = "none",
    missing_features: str = "drop",
    co_click_variance: float | None = None,
) -> PairConfig:
    """Turn the examination of all traffic and of segments into weight tables.

    co_click_variance: of the prior on co-clicks, for `joint` only; None: estimated from the log.
    """
    _check_choice("grouping", grouping, tuple(GROUPINGS))
    _check_choice("missing_features", missing_features, MISSING_FEATURES)
    if method == "unbiased-lambdamart" and grouping == "query":
        raise UserError(
            "method unbiased-lambdamart needs positions: use pairs.grouping=ranking with it"
        )
    segments = by_segment or {}
    for name, own in segments.items():
        if own.depth != examination.depth:
            raise UserError(
                f"segment {name} has propensities for {own.depth} positions, the pooled ones for "
                f"{examination.depth}; estimate both to the same depth"
            )
    weights = "naive" if method == LABELS else method
    clip = {"propensity_floor": propensity_floor, "weight_cap": weight_cap, "prs_clip": prs_clip}
    every = [examination, *segments.values()]
    tiny = min(propensity_floor, 1e-9)  # a propensity of 0 can be floored, but not divided by
    return PairConfig(
        method=method,
        tables=np.stack([weight_table(weights, own, **clip) for own in every]),
        raw=np.stack([weight_table(weights, own, propensity_floor=tiny) for own in every]),
        segments={name: n + 1 for n, name in enumerate(segments)},
        grouping=grouping,
        session_weight=session_weight,
        missing_features=missing_features,
        psi=np.stack([np.maximum(own.psi, tiny) for own in every]) if method == "joint" else None,
        co_click_variance=co_click_variance,
    )


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UserError(f"{name} = {value!r}: expected one of {', '.join(allowed)}")
