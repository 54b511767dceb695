"""How a pair table is built: the weight tables of its weightings, and options of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from ulr.config.settings import Pairs
from ulr.errors import UserError
from ulr.kernels.layout import Stopping
from ulr.pairs.gains import ONE_LEVEL
from ulr.pairs.groupings import GROUPINGS
from ulr.pairs.weightings import JOINT, VALIDATION, Weighting, weightings_of
from ulr.pairs.weights import (
    BY_CLICK_PATTERN,
    LABELS,
    LEARNS_POSITIONS,
    NEEDS_ALL_PAIRS,
    NEEDS_NO_THETA,
    floored,
    pattern_theta,
    precision_table,
    stopping_of,
    weight_table,
)
from ulr.propensity.examination import Examination

MISSING_FEATURES = ("drop", "error")
TINY = 1e-9  # a propensity of 0 can be floored, but not divided by
MIN_PSI = 1e-3  # relative to the smaller theta, in the validation loss


@dataclass(frozen=True)
class PairConfig:
    """Weights by session type and positions, and the options of the settings.

    weightings         the first is the one that a single method is trained on
    tables             (weightings, segments, 4, K, K), clipped, with precision
    raw                (segments, 4, K, K), the first weighting before clipping
    segments           name of a segment -> index of its table; any other segment uses table 0
    precision          (segments, K, K), of a pair of positions
    saturation         n_0; inf: weights grow in proportion to traffic
    psi                (segments, K, K), if a weighting smooths co-clicks
    co_click_variance  of the prior on co-clicks, of all levels or of each; None: to be estimated
    needs_theta        whether lists are cut below the last position with known examination
    stopping           p of every segment, for weights by click pattern
    click_model        that the diagnostics found, or ""
    increments         gain of each level of feedback minus that of the level below
    """

    method: str
    weightings: tuple[Weighting, ...]
    tables: np.ndarray
    raw: np.ndarray
    precision: np.ndarray
    segments: Mapping[str, int] = field(default_factory=dict)
    saturation: float = np.inf
    grouping: str = "ranking"
    session_weight: str = "none"
    missing_features: str = "drop"
    psi: np.ndarray | None = None
    co_click_variance: float | tuple[float, ...] | None = None
    needs_theta: bool = True
    stopping: Stopping | None = None
    click_model: str = ""
    increments: tuple[float, ...] = ONE_LEVEL

    @property
    def all_pairs(self) -> bool:
        """Whether pairs without a click have weight."""
        return any(weighting.method in NEEDS_ALL_PAIRS for weighting in self.weightings)

    @property
    def depth(self) -> int:
        """The number of positions of the tables, K."""
        return int(self.tables.shape[-1])

    @property
    def list_depth(self) -> int | None:
        """The position below which lists are cut, None if they are not."""
        return self.depth if self.needs_theta else None

    def reaching(self, depth: int) -> PairConfig:
        """Return the configuration with tables of at least `depth` positions.

        Only for weights that need no theta: they are the same at every position, so the last one is
        repeated. Pairs with a position of unknown examination do not count in the validation loss.
        """
        more = depth - self.depth
        if more <= 0:
            return self
        below = [(0, 0)] * (self.tables.ndim - 2) + [(0, more)] * 2
        validates = [weighting.name == VALIDATION for weighting in self.weightings]
        tables = np.pad(self.tables, below, mode="edge")
        tables[validates] = np.pad(self.tables[validates], below)
        return replace(
            self,
            tables=tables,
            raw=np.pad(self.raw, below[1:], mode="edge"),
            precision=np.pad(self.precision, below[2:]),
        )


def make_pair_config(
    method: str,
    examination: Examination,
    by_segment: Mapping[str, Examination] | None = None,
    *,
    precision: bool = False,
    saturation: float = 10.0,
    prs_clip: float = 1.0,
    propensity_floor: float = 0.0,
    weight_cap: float = np.inf,
    grouping: str = "ranking",
    session_weight: str = "none",
    missing_features: str = "drop",
    co_click_variance: float | None = None,
) -> PairConfig:
    """Turn the examination of all traffic and of segments into weight tables.

    precision: weigh the pairs of a single method by precision, too. co_click_variance: of the prior
    on co-clicks, for `joint` only; None: estimated from the log.
    """
    _check_choice("grouping", grouping, tuple(GROUPINGS))
    _check_choice("missing_features", missing_features, MISSING_FEATURES)
    if method in LEARNS_POSITIONS and grouping == "query":
        raise UserError(f"method {method} needs positions: use pairs.grouping=ranking with it")
    segments = by_segment or {}
    _check_depths(examination, segments)
    click_model = examination.click_model
    weightings = weightings_of(method, precise=precision, click_model=click_model)
    every = [examination, *segments.values()]
    tiny, floor = min(propensity_floor, TINY), max(propensity_floor, TINY)

    def tables(weighting: Weighting, **clipping: float) -> np.ndarray:
        method = "naive" if weighting.method == LABELS else weighting.method
        known = map(_with_all_psi, every) if weighting.name == VALIDATION else every
        return np.stack([_table(method, weighting.precise, own, clipping) for own in known])

    clip = {"propensity_floor": propensity_floor, "weight_cap": weight_cap, "prs_clip": prs_clip}
    smooths = any(weighting.smoothed for weighting in weightings)
    by_pattern = any(weighting.method in BY_CLICK_PATTERN for weighting in weightings)
    limits = {name: clip[name] for name in ("propensity_floor", "weight_cap")}
    return PairConfig(
        method=method,
        weightings=weightings,
        tables=np.stack([tables(w, **clip) for w in weightings]),
        raw=tables(weightings[0], propensity_floor=tiny),
        precision=np.stack([precision_table(JOINT, floored(e, floor).theta) for e in every]),
        segments={name: n + 1 for n, name in enumerate(segments)},
        saturation=saturation,
        grouping=grouping,
        session_weight=session_weight,
        missing_features=missing_features,
        psi=np.stack([np.maximum(own.psi, tiny) for own in every]) if smooths else None,
        co_click_variance=co_click_variance,
        needs_theta=method not in NEEDS_NO_THETA or any(w.precise for w in weightings[:1]),
        stopping=stopping_of(every, **limits) if by_pattern else None,
        click_model=click_model,
    )


def _check_depths(pooled: Examination, segments: Mapping[str, Examination]) -> None:
    for name, own in segments.items():
        if own.depth != pooled.depth:
            raise UserError(
                f"segment {name} has propensities for {own.depth} positions, the pooled ones for "
                f"{pooled.depth}; estimate both to the same depth"
            )


def pair_config_of(
    settings: Pairs, examination: Examination, by_segment: Mapping[str, Examination]
) -> PairConfig:
    """Return the configuration that the settings ask for."""
    options = settings.model_dump(exclude={"method", "propensities", "test_fraction", "partitions"})
    if options["co_click_variance"] == "auto":
        options["co_click_variance"] = None
    return make_pair_config(settings.method, examination, by_segment, **options)


def _with_all_psi(examination: Examination) -> Examination:
    """Return the examination with theta_k theta_l for every psi that is unknown or close to 0.

    The validation loss must not need a psi that the method itself does not use.
    """
    theta, psi = examination.theta, examination.psi
    least = MIN_PSI * np.minimum.outer(theta, theta)
    with np.errstate(invalid="ignore"):
        return replace(examination, psi=np.where(psi >= least, psi, np.outer(theta, theta)))


def _table(
    method: str, precise: bool, examination: Examination, clipping: Mapping[str, float]
) -> np.ndarray:
    table = weight_table(method, examination, **clipping)
    if precise:
        used = floored(examination, clipping["propensity_floor"])
        theta = pattern_theta(used) if method in BY_CLICK_PATTERN else used.theta
        table *= precision_table(method, theta)
    return table


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UserError(f"{name} = {value!r}: expected one of {', '.join(allowed)}")
