"""Simulated clicks on the features and labels of LETOR files: our methods beside their peers.

Every contestant is stopped by its own held-out criterion: ours by `train.early_stopping_metric`,
peers by NDCG@10 of held-out clicks. Propensities are true, or estimated from a swap experiment.
Differences are paired over seeds, which draw the split of the queries, the production ranker and
the clicks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from tests.bench.biases import RANKERS
from tests.bench.experiments import estimated_propensities
from tests.bench.peers import PEERS, train_peer
from tests.support.in_memory import train_ranker
from tests.support.worlds import (
    Corpus,
    Log,
    browsing,
    features_table,
    groups_of_pages,
    letor_corpus,
    synthetic_corpus,
)
from ulr.config.load import load_settings
from ulr.features.join import join_features
from ulr.features.split import sample_queries
from ulr.kernels.ranking_metrics import ranking_metrics
from ulr.pairs.config import make_pair_config
from ulr.pairs.table import build_pair_table
from ulr.pairs.weightings import AUTO, training_columns, validation_columns
from ulr.pairs.weights import METHODS
from ulr.propensity.examination import Examination
from ulr.simulate.clicks import ClickModel
from ulr.simulate.randomness import stream
from ulr.simulate.traffic import Catalogue, query_shares, rank_catalogue
from ulr.training.data import read_pairs, split_queries
from ulr.training.plan import TrainPlan
from ulr.training.trained import TrainedRanker

Predict = Callable[[np.ndarray], np.ndarray]
LABELS = "labels"
OURS = (AUTO, "joint", "robust", "pns", "robust+", "naive")
CONTESTANTS = (*OURS, *PEERS, LABELS)
VALIDATION = 0.1


@dataclass(frozen=True)
class WorldOptions:
    """One simulated world but its seed. corpus: LETOR files, or none for the built-in corpus."""

    corpus: tuple[str, ...] = ()
    browsing: str = "continuous"
    traffic: str = "even"
    positions: int = 10
    sessions: int = 16
    noise: float = 0.0
    ranker: str = "ridge"
    swap_pages: int = 0
    queries: int = 600

    @property
    def name(self) -> str:
        """A short name for tables."""
        return f"{self.browsing}, {self.traffic}"


@dataclass(frozen=True)
class World:
    """Pages of one seed. query: of each page; clicks: pages x positions; known: propensities."""

    corpus: Corpus
    queries: int
    documents: np.ndarray
    query: np.ndarray
    clicks: np.ndarray
    known: Examination


def make_world(options: WorldOptions, seed: int) -> World:
    """Draw the corpus, the production rankings and the clicks."""
    if options.corpus:
        corpus = letor_corpus(list(options.corpus), seed)
        queries = round(0.75 * len(corpus.names.queries))
    else:
        corpus = synthetic_corpus(seed, options.queries * 4 // 3, 30, 25)
        queries = options.queries
    scores = RANKERS[options.ranker](corpus, seed)
    catalogue = Catalogue(corpus.names, corpus.labels, scores, corpus.max_label)
    rankings = rank_catalogue(
        catalogue, options.positions, drift=0.0, noise=options.noise, seed=seed, day=0
    )
    documents, relevance = rankings.documents[:queries], rankings.relevance[:queries]
    rng = stream(seed, "letor", 0)
    query = _query_of_pages(options, queries, rng)
    examination = browsing(options.browsing, options.positions)
    flat = np.ones(options.positions), np.zeros(options.positions)
    clicks = ClickModel(examination, *flat)
    psi = examination.truth(relevance, np.full(queries, 1 / queries))
    known = Examination(np.diag(psi).copy(), psi)
    if options.swap_pages:
        log = Log(documents, np.zeros(0), known, relevance, clicks)
        known = estimated_propensities(log, options.swap_pages, seed)
    return World(corpus, queries, documents, query, clicks.draw(rng, relevance[query]), known)


def _query_of_pages(options: WorldOptions, queries: int, rng: np.random.Generator) -> np.ndarray:
    """Return the query of each page, ascending: the same number for all, or by Zipf's law."""
    if options.traffic == "even":
        return np.repeat(np.arange(queries), options.sessions)
    shares = rng.permutation(query_shares(queries, 1.0, 0.0))
    return np.repeat(np.arange(queries), rng.multinomial(options.sessions * queries, shares))


@dataclass(frozen=True)
class Result:
    """NDCG@1 and @10 on complete lists of other queries, and the number of trees."""

    ndcg: tuple[float, float]
    trees: int
    choice: str = ""


def run_contestant(world: World, name: str, *, trees: int, threads: int) -> Result:
    """Train one contestant and evaluate it on the queries without clicks."""
    if name in PEERS or name == LABELS:
        predict, grown = train_peer(world, name, VALIDATION, trees=trees, threads=threads)
        return Result(_ndcg(world, predict), grown)
    ranker = train_ours(world, name, trees=trees, threads=threads)
    choice = ranker.choice or {}
    chosen = f"{choice['method']}/{choice['num_leaves']}" if choice else ""
    return Result(_ndcg(world, ranker.predict), ranker.best_iteration, chosen)


def train_ours(world: World, method: str, *, trees: int, threads: int) -> TrainedRanker:
    """Train a method of ours with the default settings."""
    assert method == AUTO or method in METHODS, method
    settings = load_settings(None)
    groups = groups_of_pages(world.corpus, world.documents, world.query, world.clicks)
    window = join_features(groups, features_table(world.corpus, world.queries))
    table, _ = build_pair_table(window, make_pair_config(method, world.known))
    held_out = sample_queries(table["query_id"].combine_chunks(), VALIDATION, "validation")
    train, validation = (
        split_queries(read_pairs([table], weights), chosen)
        for weights, chosen in (
            (training_columns(method), ~held_out),
            ([validation_columns(method)], held_out),
        )
    )
    lightgbm = {**settings.lightgbm, "num_threads": threads}
    stopping = settings.train.early_stopping_round
    plan = TrainPlan(method, trees, lightgbm, early_stopping_round=stopping)
    return train_ranker(train, plan, validation=validation)


def _ndcg(world: World, predict: Predict) -> tuple[float, float]:
    start = int(world.corpus.offsets[world.queries])
    offsets = world.corpus.offsets[world.queries :] - start
    scores = np.asarray(predict(world.corpus.features[start:]), np.float64)
    values = ranking_metrics(scores, world.corpus.labels[start:], offsets, cuts=(1, 10))
    return float(np.nanmean(values[:, 0])), float(np.nanmean(values[:, 1]))


def worlds_of(
    corpora: dict[str, tuple[str, ...]], models: list[str], traffics: list[str], **options
) -> dict[tuple[str, str], WorldOptions]:
    """Return every combination by the name of its corpus and its own name."""
    cells = {}
    for (name, files), model, traffic in product(corpora.items(), models, traffics):
        world = WorldOptions(files, model, traffic, **options)
        cells[name, world.name] = world
    return cells
