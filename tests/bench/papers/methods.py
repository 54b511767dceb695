"""The methods of the papers, by name; a trainer turns a method and a log into a ranker.

A new kind of ranker is one entry of TRAINERS. A method whose ranker is not there is left out of
tables and figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.bench.label_ranker import train_on_labels
from tests.bench.papers.propensities import propensities
from tests.bench.papers.worlds import Pages, World
from tests.support.in_memory import train_ranker
from tests.support.worlds import features_table, groups_of_pages
from ulr.config.load import load_settings
from ulr.features.join import join_features
from ulr.pairs.config import make_pair_config
from ulr.pairs.table import build_pair_table
from ulr.pairs.weights import LEARNS_POSITIONS
from ulr.training.biases import LearnedBiases, initial_biases
from ulr.training.data import RankingData, read_pairs
from ulr.training.plan import LINEAR, UNBIASED_LAMBDAMART, TrainPlan

OF_IRRELEVANT = "ips-irrelevant"  # ips-all without the pairs whose lower document is relevant
LINEAR_ITERATIONS = 200  # upper limit of L-BFGS
Predict = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Method:
    """A row of a table or a line of a figure.

    weights: of the pairs, as `pairs.method`. ranker: a key of TRAINERS. propensities: as in
    propensities.py. p: regularisation of t+ and t-. given: t+ is theta, and only t- is learned.
    precise: pairs are weighted by precision, as in `pairs.precision`.
    """

    name: str
    weights: str = "naive"
    ranker: str = "trees"
    propensities: str = "true"
    p: float = 0.0
    given: bool = False
    precise: bool = False


@dataclass
class Ranker:
    """A trained ranker, and the biases that it has learned."""

    predict: Predict
    biases: LearnedBiases | None = None


@dataclass
class Bench:
    """One log and what its methods share: groups, features, and the rankers' parameters."""

    pages: Pages
    world: World
    seed: int
    trees: int

    def __post_init__(self) -> None:
        pages = self.pages
        self.groups = groups_of_pages(pages.corpus, pages.documents, pages.query, pages.clicks)
        self.features = features_table(pages.corpus, pages.queries)
        parameters = {"num_leaves": 31, "learning_rate": 0.05, "feature_fraction": 0.9,
                      "bagging_fraction": 0.9, "bagging_freq": 1, "num_threads": 1}  # fmt: skip
        self.lightgbm: dict[str, Any] = {**load_settings(None).lightgbm, **parameters}
        self._window = join_features(self.groups, self.features)
        self._tables: dict[tuple[str, str, bool], RankingData] = {}

    def examination(self, name: str):
        """Return the propensities by that name."""
        return propensities(name, self.pages, self.world, self.seed)

    def pairs(self, method: Method) -> RankingData:
        """Return the pair table; methods with equal weights and propensities share it."""
        weights = "naive" if method.weights in LEARNS_POSITIONS else method.weights
        given = "true" if weights == "naive" else method.propensities
        key = (weights, given, method.precise)
        if key not in self._tables:
            base = "ips-all" if weights == OF_IRRELEVANT else weights
            config = make_pair_config(base, self.examination(given), precision=method.precise)
            data = read_pairs([build_pair_table(self._window, config)[0]])
            self._tables[key] = _of_irrelevant(data) if weights == OF_IRRELEVANT else data
        return self._tables[key]


def _of_irrelevant(data: RankingData) -> RankingData:
    """Return the pairs whose lower document is irrelevant by its golden label (PRS figure 2)."""
    lists, labels = data.pairs, np.asarray(data.labels)
    query = np.repeat(np.arange(lists.query_groups.size - 1), np.diff(lists.query_groups))
    group = np.repeat(np.arange(query.size), np.diff(lists.group_pairs))

    def irrelevant(place: np.ndarray) -> np.ndarray:
        row = lists.doc_row[lists.group_docs[group] + place] + lists.query_rows[query[group]]
        return (labels[row] == 0).astype(np.float32)

    u_ij, u_ji = lists.u_ij * irrelevant(lists.j), lists.u_ji * irrelevant(lists.i)
    return replace(data, pairs=lists._replace(u_ij=u_ij, u_ji=u_ji))


@dataclass(frozen=True)
class _PaperPlan(TrainPlan):
    """A plan that learns t- with any p while t+ is given, and t+ and t- after every iteration."""

    def initial_biases(self, max_position: int) -> LearnedBiases | None:
        if self.theta is not None:
            return initial_biases(max_position, self.bias_regularization, self.theta)
        return super().initial_biases(max_position)


def _trees(bench: Bench, method: Method) -> Ranker:
    plan = _PaperPlan(method.weights, bench.trees, bench.lightgbm, bias_rounds=0)
    if method.weights == UNBIASED_LAMBDAMART:
        theta = bench.examination(method.propensities).theta if method.given else None
        plan = replace(plan, bias_regularization=method.p, theta=theta)
    trained = train_ranker(bench.pairs(method), plan)
    return Ranker(trained.predict, trained.biases)


def _linear(bench: Bench, method: Method) -> Ranker:
    """Minimise the logistic loss, or the hinge loss for the ranker `svm`."""
    loss = "hinge" if method.ranker == "svm" else "logistic"
    plan = TrainPlan(method.weights, LINEAR_ITERATIONS, bench.lightgbm, ranker=LINEAR,
                     linear_loss=loss)  # fmt: skip
    return Ranker(train_ranker(bench.pairs(method), plan).predict)


def _labels(bench: Bench, method: Method) -> Ranker:
    corpus = bench.pages.corpus
    documents = bench.pages.documents
    predict = train_on_labels(
        corpus.features, corpus.labels, documents, bench.lightgbm, bench.trees
    )
    return Ranker(predict)


def _production(bench: Bench, method: Method) -> Ranker:
    """Return the scores that the log was ranked by, of the test queries only."""
    start = int(bench.pages.corpus.offsets[bench.pages.queries])
    return Ranker(lambda features: bench.pages.corpus.scores[start:])


def _ideal(bench: Bench, method: Method) -> Ranker:
    """Return the golden labels as scores, of the test queries only."""
    start = int(bench.pages.corpus.offsets[bench.pages.queries])
    return Ranker(lambda features: bench.pages.corpus.labels[start:])


TRAINERS: dict[str, Callable[[Bench, Method], Ranker]] = {
    "trees": _trees,
    "linear": _linear,
    "svm": _linear,
    "labels": _labels,
    "production": _production,
    "ideal": _ideal,
}

NAIVE = Method("Naive")
IPS = Method("IPS", "robust")
IPS_ALL = Method("IPS, all documents", "ips-all")
IPS_IRRELEVANT = Method("IPS, irrelevant documents", OF_IRRELEVANT)
PNS = Method("PNS", "pns")
PRS = Method("PRS", "prs")
DLA = Method("DLA", "dla")
JOINT = Method("joint with precision (ulr)", "joint", precise=True)
LABELS = Method("Labels", "labels", "labels")
PRODUCTION = Method("Production ranker", ranker="production")
IDEAL = Method("Golden labels", ranker="ideal")


def unbiased_lambdamart(p: float, *, given: bool = False) -> Method:
    """Return Unbiased LambdaMART with regularisation p; given: t+ is the true theta."""
    return Method(f"Unbiased LambdaMART, p = {p:g}", UNBIASED_LAMBDAMART, p=p, given=given)


def available(methods: list[Method]) -> list[Method]:
    """Return the methods whose ranker exists."""
    return [method for method in methods if method.ranker in TRAINERS]


def linear(method: Method) -> Method:
    """Return the method with a linear ranker, pairwise logistic regression, if it trains one."""
    if method.ranker not in ("trees", "labels"):
        return method
    return replace(method, name=f"{method.name}, linear", ranker="linear")
