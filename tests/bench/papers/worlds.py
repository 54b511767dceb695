"""The click logs of the papers: how users browse, how many pages or clicks, which queries."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tests.support.worlds import Corpus, letor_corpus, synthetic_corpus
from ulr.propensity.examination import Examination
from ulr.simulate.browsing import CURVES, Browsing, Cascade, Continuous, Independent
from ulr.simulate.clicks import ClickModel
from ulr.simulate.randomness import stream
from ulr.simulate.traffic import Catalogue, rank_catalogue

STRONG_NOISE = 1.5  # standard deviations of the labels, in the scores of a strong ranker
PILOT_PAGES = 20_000  # pages that measure the clicks per page for a click budget


@dataclass(frozen=True)
class Scale:
    """The size of a run. trees: of every model. letor: files instead of the built-in corpus."""

    queries: int
    trees: int
    seeds: int
    letor: tuple[str, ...] = ()

    def corpus(self, seed: int) -> tuple[Corpus, int]:
        """Return a corpus and its number of training queries; a third as many are for testing."""
        if self.letor:
            corpus = letor_corpus(list(self.letor), seed)
            return corpus, round(0.75 * len(corpus.names.queries))
        return synthetic_corpus(seed, self.queries * 4 // 3, 30, 25), self.queries


@dataclass(frozen=True)
class World:
    """One setting of a click simulation.

    cut: documents on a page. beta: of the cascade, whose phi is half of the relevance. epsilon:
    relevance of the lowest label. noise: mu, P(click | examined) is 1 - mu if relevant, else mu.
    binary: clicks and golden labels are binary, relevant from grade 3 on, or 1 of fewer grades.
    sessions: pages per query, or clicks: in total, on random queries. fraction: of the queries.
    strong: the production ranker is the golden labels with noise instead of a linear model of 1%
    of the queries.
    """

    browsing: str = "independent"
    curve: str = "power"
    eta: float = 1.0
    beta: float = 0.5
    epsilon: float = 0.0
    noise: float = 0.0
    binary: bool = False
    cut: int = 10
    sessions: int = 16
    clicks: int | None = None
    fraction: float = 1.0
    strong: bool = False

    def theta(self, eta: float | None = None) -> np.ndarray:
        """Return the examination curve; eta: another exponent than the true one."""
        return CURVES[self.curve](self.cut, self.eta if eta is None else eta)

    def click_model(self) -> ClickModel:
        """Return the click model."""
        models: dict[str, Browsing] = {
            "independent": Independent(self.theta()),
            "continuous": Continuous(self.theta()),
            "cascade": Cascade(None, self.beta),
        }
        noise = np.full(self.cut, self.noise)
        return ClickModel(models[self.browsing], 1 - noise, noise)


@dataclass(frozen=True)
class Pages:
    """A drawn log. documents, relevance: queries x positions. query, clicks: by page."""

    corpus: Corpus
    queries: int
    documents: np.ndarray
    relevance: np.ndarray
    query: np.ndarray
    clicks: np.ndarray
    model: ClickModel
    truth: Examination


def _noisy_labels(corpus: Corpus, seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=corpus.labels.size)
    return (corpus.labels + STRONG_NOISE * corpus.labels.std() * noise).astype(np.float32)


def draw_pages(scale: Scale, world: World, seed: int) -> Pages:
    """Draw the log of a world on the production rankings of the training queries."""
    corpus, queries = scale.corpus(seed)
    if world.strong:
        corpus = replace(corpus, scores=_noisy_labels(corpus, seed))
    grade = 3 if corpus.max_label >= 3 else 1
    rankings = rank_catalogue(
        Catalogue(corpus.names, corpus.labels, corpus.scores, corpus.max_label), world.cut,
        drift=0.0, noise=world.epsilon, seed=seed, day=0, binarize=grade if world.binary else None,
    )  # fmt: skip
    if world.binary:
        corpus = replace(corpus, labels=(corpus.labels >= grade).astype(np.int32), max_label=1)
    used = max(round(queries * world.fraction), 1)
    documents, relevance = rankings.documents[:used], rankings.relevance[:used]
    model, rng = world.click_model(), stream(seed, "papers", 0)
    query = np.repeat(np.arange(used), world.sessions)
    if world.clicks is not None:
        pilot = model.draw(rng, relevance[rng.integers(used, size=PILOT_PAGES)])
        pages = round(world.clicks / max(pilot.sum() / PILOT_PAGES, 1e-9))
        query = np.sort(rng.integers(used, size=pages))
    clicks = model.draw(rng, relevance[query])
    psi = model.truth(relevance, np.full(used, 1 / used))[0]
    truth = Examination(np.diag(psi) / psi[0, 0], psi / psi[0, 0])
    return Pages(corpus, queries, documents, relevance, query, clicks, model, truth)
