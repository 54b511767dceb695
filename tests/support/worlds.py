"""Simulated sessions in memory: a corpus, its clicks, and both as groups and features tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ulr.features.letor import read_letor
from ulr.kernels.layout import Patterns
from ulr.kernels.merge import merge_patterns
from ulr.kernels.patterns import pack_clicks
from ulr.propensity.examination import Examination
from ulr.simulate.browsing import Browsing, Continuous, Independent, RowSkipping, power_curve
from ulr.simulate.clicks import ClickModel
from ulr.simulate.randomness import stream
from ulr.simulate.traffic import Catalogue, rank_catalogue
from ulr.simulate.world import Judged, Names, Synthetic, WorldBlock, weak_ranker
from ulr.warehouse.schema import features_schema, groups_schema


@dataclass(frozen=True)
class Corpus:
    """Documents query after query: features (rows x width), labels, production scores."""

    names: Names
    features: np.ndarray
    labels: np.ndarray
    scores: np.ndarray
    max_label: int

    @property
    def offsets(self) -> np.ndarray:
        """First row of every query, and the end."""
        return np.concatenate([[0], np.cumsum(self.names.doc_counts)])


@dataclass(frozen=True)
class Log:
    """Clicks on the rankings of a corpus.

    documents: corpus rows, queries x positions. clicks: bool, queries x sessions x positions.
    truth: the propensities of the click model. relevance: of the documents.
    """

    documents: np.ndarray
    clicks: np.ndarray
    truth: Examination
    relevance: np.ndarray
    click_model: ClickModel


def synthetic_corpus(seed: int, queries: int, docs: int, features: int) -> Corpus:
    """Return the simulated corpus of `ulr simulate`, scored by a weak production ranker."""
    world = Synthetic(seed, queries, docs, features)
    blocks = [world.block(n) for n in range(world.blocks)]
    ranker = weak_ranker(blocks[0], max(5, queries // 100))
    x = np.concatenate([b.features for b in blocks])
    y = np.concatenate([b.labels for b in blocks])
    return Corpus(world.names(), x, y, ranker.scores(x), world.max_label)


def letor_corpus(paths: list[str], seed: int) -> Corpus:
    """Return judged documents, queries in random order, scored by a model of the first few."""
    world = Judged(read_letor(paths))
    block = world.block(0)
    counts = block.names.doc_counts
    order = np.random.default_rng(seed).permutation(counts.size)
    starts = np.concatenate([[0], np.cumsum(counts)])
    rows = np.concatenate([np.arange(starts[q], starts[q + 1]) for q in order])
    take = pa.array(rows)
    names = Names(block.names.queries.take(pa.array(order)), block.names.documents.take(take),
                  counts[order])  # fmt: skip
    shuffled = WorldBlock(names, block.features[rows], block.labels[rows])
    ranker = weak_ranker(shuffled, max(5, counts.size // 100))
    scores = ranker.scores(shuffled.features)
    return Corpus(names, shuffled.features, shuffled.labels, scores, world.max_label)


def browsing(name: str, positions: int) -> Browsing:
    """Return a browsing model by name, with theta = 1 / k if it has a curve."""
    theta = power_curve(positions, 1.0)
    if name == "row_skipping":
        return RowSkipping(0.3, np.full(positions, 0.9), 2)
    return {"independent": Independent, "continuous": Continuous}[name](theta)


def click_log(
    corpus: Corpus, queries: int, positions: int, sessions: int, *, model: str, seed: int,
    noise: float = 0.0,
) -> Log:  # fmt: skip
    """Show the production rankings of the first queries `sessions` times, cut at `positions`."""
    catalogue = Catalogue(corpus.names, corpus.labels, corpus.scores, corpus.max_label)
    rankings = rank_catalogue(catalogue, positions, drift=0.0, noise=noise, seed=seed, day=0)
    documents, relevance = rankings.documents[:queries], rankings.relevance[:queries]
    examination = browsing(model, positions)
    click_model = ClickModel(examination, np.ones(positions), np.zeros(positions))
    clicks = click_model.draw(stream(seed, "bench", 0), np.repeat(relevance, sessions, axis=0))
    psi = examination.truth(relevance, np.full(queries, 1 / queries))
    truth = Examination(np.diag(psi).copy(), psi)
    clicks = clicks.reshape(queries, sessions, positions)
    return Log(documents, clicks, truth, relevance, click_model)


def groups_table(corpus: Corpus, log: Log) -> pa.Table:
    """Return the sessions as click-pattern histograms, one group per query."""
    queries, sessions, positions = log.clicks.shape
    query = np.repeat(np.arange(queries), sessions)
    return groups_of_pages(corpus, log.documents, query, log.clicks.reshape(-1, positions))


def groups_of_pages(
    corpus: Corpus, documents: np.ndarray, query: np.ndarray, clicks: np.ndarray
) -> pa.Table:
    """Return pages as histograms, one group per query that was shown.

    documents: corpus rows, queries x positions. query: of each page. clicks: pages x positions.
    """
    shown, group = np.unique(query, return_inverse=True)
    documents, queries, pages = documents[shown], shown.size, query.size
    sizes = (documents >= 0).sum(axis=1)
    bits = np.packbits(clicks.reshape(-1), bitorder="little")
    starts = np.arange(pages, dtype=np.int64) * clicks.shape[1]
    word_offsets, words = pack_clicks(starts, sizes[group], bits)
    patterns = Patterns(word_offsets, words, np.arange(pages + 1), np.ones(pages, np.int64))
    merged = merge_patterns(group, queries, patterns)
    flat = corpus.names.documents.take(pa.array(documents[documents >= 0]))
    columns = {
        "query_id": corpus.names.queries.take(pa.array(shown)),
        "ranking": pa.array(np.zeros(queries, np.int64)),
        "doc_ids": _lists(np.concatenate([[0], np.cumsum(sizes)]), flat),
        "patterns": _lists(merged.word_offsets, pa.array(merged.words)),
        "counts": _lists(merged.count_offsets, pa.array(merged.counts)),
    }
    nulls = {f.name: pa.nulls(queries, f.type) for f in groups_schema}
    return pa.table([columns.get(f.name, nulls[f.name]) for f in groups_schema], groups_schema)


def features_table(corpus: Corpus, queries: int) -> pa.Table:
    """Return features and labels of the documents of the first queries."""
    rows = int(corpus.offsets[queries])
    width = corpus.features.shape[1]
    flat = pa.array(corpus.features[:rows].reshape(-1))
    columns = [
        corpus.names.query_of_document.slice(0, rows),
        corpus.names.documents.slice(0, rows),
        _lists(np.arange(rows + 1) * width, flat),
        pa.array(corpus.labels[:rows]),
    ]
    return pa.table(columns, schema=features_schema)


def _lists(offsets: np.ndarray, values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(offsets.astype(np.int32), values)
