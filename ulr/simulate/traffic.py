"""Draw result pages from a catalogue of queries: query, segment, bucket, ranking and clicks.

The module uses NumPy only; a block of pages depends only on its random stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ulr.experiments.buckets import parse_bucket, permutation
from ulr.kernels.layout import offsets_of
from ulr.simulate.clicks import ClickModel, relevance_of
from ulr.simulate.randomness import stream
from ulr.simulate.world import Names


@dataclass(frozen=True)
class Catalogue:
    """The documents of a world with their labels (int32) and production scores (float32)."""

    names: Names
    labels: np.ndarray
    scores: np.ndarray
    max_label: int


@dataclass(frozen=True)
class DailyRankings:
    """The rankings of one date, queries x positions.

    documents: int64, rows of the catalogue. relevance: float64. Both are -1 after the end of a
    ranking.
    """

    documents: np.ndarray
    relevance: np.ndarray


@dataclass(frozen=True)
class Experiment:
    """Buckets with their shares of the traffic; the remaining traffic is in no bucket."""

    buckets: tuple[str, ...]
    shares: tuple[float, ...]

    def permutations(self, positions: int) -> np.ndarray:
        """Return the order shown by each bucket's swapped arm; row 0 is the unchanged order."""
        rows = [list(range(positions))]
        rows += [permutation(parse_bucket(name), positions) for name in self.buckets]
        return np.array(rows)

    def shuffled(self, positions: int) -> np.ndarray:
        """Return how many first positions each bucket shuffles; element 0 stands for no bucket."""
        depths = [parse_bucket(name).shuffled for name in self.buckets]
        return np.array([0] + [0 if d is None else d or positions for d in depths])

    def depths(self) -> np.ndarray:
        """Return the deepest position of each bucket; element 0 stands for no bucket and is 0."""
        return np.array([0] + [parse_bucket(name).last_position for name in self.buckets])


@dataclass(frozen=True)
class Pages:
    """A block of drawn pages.

    query, segment, bucket (0: none), swapped: one per page. documents (rows of the catalogue, -1
    after the last document) and clicks (bool): pages x positions.
    """

    query: np.ndarray
    segment: np.ndarray
    bucket: np.ndarray
    swapped: np.ndarray
    documents: np.ndarray
    clicks: np.ndarray


def query_shares(queries: int, zipf: float, hot_query_fraction: float) -> np.ndarray:
    """Return the queries' shares of the traffic: Zipf's law plus extra traffic for query 0."""
    shares = np.arange(1, queries + 1, dtype=float) ** -zipf
    shares *= (1 - hot_query_fraction) / shares.sum()
    shares[0] += hot_query_fraction
    return shares


def rank_catalogue(
    catalogue: Catalogue,
    positions: int,
    *,
    drift: float,
    noise: float,
    seed: int,
    day: int,
    binarize: int | None = None,
) -> DailyRankings:
    """Rank every query's documents by production score, plus daily noise if `drift` > 0."""
    counts = catalogue.names.doc_counts
    starts = offsets_of(counts)[:-1]
    width = int(counts.max())
    column = np.arange(width)
    exists = column < counts[:, None]
    rows = np.where(exists, starts[:, None] + column, 0)
    scores = catalogue.scores
    if drift:
        scores = scores + drift * stream(seed, "drift", day).standard_normal(scores.size)
    order = np.argsort(np.where(exists, -scores[rows], np.inf), axis=1, kind="stable")
    shown = np.take_along_axis(np.where(exists, rows, -1), order[:, :positions], axis=1)
    if width < positions:
        shown = np.pad(shown, ((0, 0), (0, positions - width)), constant_values=-1)
    relevance = relevance_of(catalogue.labels[shown], catalogue.max_label, noise, binarize)
    return DailyRankings(shown, np.where(shown >= 0, relevance, -1.0))


def _random_orders(rng: np.random.Generator, first: np.ndarray, positions: int) -> np.ndarray:
    """Return a random order of the first positions of each page, and the others unchanged."""
    column = np.arange(positions)
    key = np.where(column < first[:, None], rng.random((first.size, positions)), 1.0 + column)
    return np.argsort(key, axis=1)


def draw_pages(
    rng: np.random.Generator,
    count: int,
    rankings: DailyRankings,
    *,
    query_cdf: np.ndarray,
    segment_cdf: np.ndarray,
    models: Sequence[ClickModel],
    experiment: Experiment,
) -> Pages:
    """Draw `count` pages."""
    # Do not reorder the calls of `rng`: the same seed must always give the same log.
    positions = rankings.documents.shape[1]
    query = np.searchsorted(query_cdf, rng.random(count) * query_cdf[-1], side="right")
    segment = np.searchsorted(segment_cdf, rng.random(count) * segment_cdf[-1], side="right")
    bucket_cdf = np.cumsum(experiment.shares)
    bucket = 1 + np.searchsorted(bucket_cdf, rng.random(count), side="right")
    bucket[bucket > len(experiment.buckets)] = 0
    swapped = rng.random(count) < 0.5

    # A page that is too short for its bucket is in no bucket.
    lengths = (rankings.documents >= 0).sum(axis=1)[query]
    bucket[experiment.depths()[bucket] > lengths] = 0
    arm = np.where(swapped, bucket, 0)
    order = experiment.permutations(positions)[arm]
    shuffled = experiment.shuffled(positions)[bucket]
    pages = np.flatnonzero(shuffled)
    order[pages] = _random_orders(rng, np.minimum(shuffled, lengths)[pages], positions)
    swapped[pages] = True  # a page of a shuffle has no arm
    documents = np.take_along_axis(rankings.documents[query], order, axis=1)
    relevance = np.take_along_axis(rankings.relevance[query], order, axis=1)

    clicks = np.zeros(documents.shape, bool)
    for number, model in enumerate(models):
        pages = segment == number
        clicks[pages] = model.draw(rng, relevance[pages])
    return Pages(query, segment, bucket, swapped, documents, clicks)
