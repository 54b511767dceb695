"""Swap experiments with known truth, drawn as counts.

Pattern probabilities are exact and an arm is one multinomial draw, so hundreds of logs are cheap.
"""

from __future__ import annotations

import numpy as np

from tests.support import propensity_loops as loops
from ulr.experiments.buckets import parse_bucket, permutation
from ulr.propensity.swap_counts import ALL_CLICKED, Arm, BucketArms, SwapCounts
from ulr.simulate.browsing import Cascade, Continuous, Independent, RowSkipping
from ulr.simulate.clicks import ClickModel, relevance_of

POSITIONS = 10
POWER = np.arange(1, POSITIONS + 1) ** -1.0
BROWSING = {
    "independent": Independent(POWER),
    "continuous": Continuous(POWER),
    "row skipping": RowSkipping(0.3, np.full(POSITIONS, 0.9), 2),
}
STOPPING = Cascade(0.4, 0.9)  # no psi(k, l) describes it


def queries(rng, count: int, positions: int) -> np.ndarray:
    """Relevance of ranked documents, better ones higher on the whole; noise 0.1."""
    labels = rng.integers(0, 5, (count, positions))
    labels = np.where(rng.random(labels.shape) < 0.5, -np.sort(-labels, axis=1), labels)
    return relevance_of(labels, 4, 0.1)


def click_model(browsing, positions: int, *, positive=1.0, negative=0.0) -> ClickModel:
    return ClickModel(browsing, np.full(positions, positive), np.broadcast_to(negative, positions))


def pattern_bits(positions: int) -> np.ndarray:
    return (np.arange(2**positions)[:, None] >> np.arange(positions)) & 1


def examination_patterns(browsing, positions: int):
    """Every set of positions that a user may examine, with its probability."""
    if isinstance(browsing, Independent):
        bits = pattern_bits(positions)
        theta = browsing.theta[:positions]
        return bits, np.prod(np.where(bits, theta, 1 - theta), axis=1)
    if isinstance(browsing, Continuous):
        bits = np.tril(np.ones((positions + 1, positions), int), -1)
        ends = np.concatenate([[1], browsing.theta[:positions], [0]])
        return bits, ends[:-1] - ends[1:]
    assert isinstance(browsing, RowSkipping)
    chances: dict[tuple, float] = {}
    _walk(browsing, 0, (), 1.0, positions, chances)
    return np.array(list(chances)), np.array(list(chances.values()))


def _walk(browsing, at, so_far, chance, positions, chances):  # noqa: PLR0917
    if at >= positions:
        chances[so_far] = chances.get(so_far, 0) + chance
        return
    width = min(browsing.width, positions - at)
    _walk(browsing, at + width, so_far + (0,) * width, chance * browsing.gamma, positions, chances)
    stay = chance * (1 - browsing.gamma)
    for seen in range(1, width + 1):
        row = (1,) * seen + (0,) * (width - seen)
        continue_probability = browsing.continue_probability[at + seen - 1]
        rest = (0,) * (positions - at - width)
        key = so_far + row + rest
        chances[key] = chances.get(key, 0) + stay * (1 - continue_probability)
        stay *= continue_probability
    _walk(browsing, at + width, so_far + (1,) * width, stay, positions, chances)


def pattern_probabilities(
    model: ClickModel, relevance: np.ndarray, weight: np.ndarray | None = None
) -> np.ndarray:
    """P(click pattern). relevance: queries x positions; weight: of the queries, or equal."""
    positions = relevance.shape[1]
    weight = np.full(len(relevance), 1 / len(relevance)) if weight is None else weight
    attraction = model.negative + (model.positive - model.negative) * relevance
    if isinstance(model.browsing, Independent):
        return weight @ _products(attraction * model.browsing.theta[:positions])
    if isinstance(model.browsing, Cascade):
        return weight @ _cascade_patterns(model.browsing, attraction)
    total = np.zeros(2**positions)
    examined, chance = examination_patterns(model.browsing, positions)
    for e, p in zip(examined, chance, strict=True):
        total += p * (weight @ _products(attraction * e))
    return total


def _products(click: np.ndarray) -> np.ndarray:
    """Pattern probabilities of independent clicks, one row per query."""
    out = np.ones((len(click), 1))
    for k in range(click.shape[1]):
        c = click[:, k, None]
        out = np.hstack([out * (1 - c), out * c])
    return out


def _cascade_patterns(browsing: Cascade, attraction: np.ndarray) -> np.ndarray:
    """P(click pattern) of users who stop, per query: those who read on, and those who have left."""
    reading, left = np.ones((len(attraction), 1)), np.zeros((len(attraction), 1))
    for k in range(attraction.shape[1]):
        c, stay = attraction[:, k, None], browsing.beta
        after_click = stay * (1 - browsing.phi)
        none, one = reading * (1 - c), reading * c
        left = np.hstack([left + none * (1 - stay), one * (1 - after_click)])
        reading = np.hstack([none * stay, one * after_click])
    return reading + left


class SwapLab:
    """Buckets with exact pattern probabilities, ready to be drawn many times."""

    def __init__(
        self,
        model: ClickModel,
        relevance: np.ndarray,
        buckets: list[str],
        weight: np.ndarray | None = None,
    ):
        self.positions = relevance.shape[1]
        self.bits = pattern_bits(self.positions)
        self.arms = {}
        weight = np.full(len(relevance), 1 / len(relevance)) if weight is None else weight
        kept = pattern_probabilities(model, relevance, weight)
        for name in buckets:
            order = permutation(parse_bucket(name), self.positions)
            self.arms[name] = (kept, pattern_probabilities(model, relevance[:, order], weight))
        psi, alpha, beta = model.truth(relevance, weight)
        self.theta = np.diag(psi) / psi[0, 0]
        self.psi = psi * (self.theta[1] / psi[0, 1])
        self.alpha, self.beta = alpha, beta

    def draw(self, rng, pages: int) -> SwapCounts:
        """An experiment of `pages` pages spread evenly over the buckets."""
        buckets = {}
        for name, (kept, swapped) in self.arms.items():
            bucket = parse_bucket(name)
            size = pages // len(self.arms)
            half = rng.binomial(size, 0.5)
            buckets[name] = BucketArms(
                bucket,
                self.arm(rng.multinomial(size - half, kept), bucket),
                self.arm(rng.multinomial(half, swapped), bucket),
            )
        return SwapCounts(self.positions, buckets)

    def arm(self, counts: np.ndarray, bucket) -> Arm:
        conditions = {p: self.bits[:, p - 1] for p in bucket.positions}
        conditions[ALL_CLICKED] = np.prod([*conditions.values()], axis=0)
        conditional = {name: self.co_clicks(counts * held) for name, held in conditions.items()}
        return Arm(int(counts.sum()), self.co_clicks(counts), conditional)

    def co_clicks(self, counts: np.ndarray) -> np.ndarray:
        return self.bits.T @ (counts[:, None] * self.bits)


def single_buckets(positions: int) -> list[str]:
    return [f"1:{k}" for k in range(2, positions + 1)]


def pair_buckets(positions: int) -> list[str]:
    last = positions
    return [f"1,2:{k},{v}" for k in range(1, last) for v in range(k + 1, last + 1) if v > 2]


def lab_of(browsing, buckets, seed=1, **noise) -> SwapLab:
    """An experiment of POSITIONS positions over twelve queries."""
    rng = np.random.default_rng(seed)
    model = click_model(browsing, POSITIONS, **noise)
    return SwapLab(model, queries(rng, 12, POSITIONS), buckets)


def draw_sessions(rng, pages: int, rates) -> list[list[int]]:
    """Sessions with independent clicks."""
    return (rng.random((pages, len(rates))) < rates).astype(int).tolist()


def arm_of(sessions, bucket) -> Arm:
    """An arm counted by plain loops."""
    touched = bucket.positions
    conditions = [*[(p,) for p in touched], touched]
    co_clicks, *conditional = loops.arm_counts(sessions, len(sessions[0]), conditions)
    names = [*touched, ALL_CLICKED]
    layers = {name: np.array(matrix) for name, matrix in zip(names, conditional, strict=True)}
    return Arm(len(sessions), np.array(co_clicks), layers)


def arms_of(name: str, kept, swapped) -> BucketArms:
    bucket = parse_bucket(name)
    return BucketArms(bucket, arm_of(kept, bucket), arm_of(swapped, bucket))
