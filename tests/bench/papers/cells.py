"""Cells of an experiment: a world, a seed and some methods, evaluated on the test queries."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing import get_context

import numpy as np

from tests.bench.papers.methods import TRAINERS, Bench, Method, available
from tests.bench.papers.worlds import Scale, World, draw_pages
from ulr.kernels.ranking_metrics import ranking_metrics
from ulr.training.biases import Biases

METRICS = ("NDCG@1", "NDCG@3", "NDCG@5", "NDCG@10", "MAP")
POSITIONS = 10  # of the average positions after re-ranking


@dataclass(frozen=True)
class Task:
    """One cell to compute."""

    scale: Scale
    world: World
    seed: int
    methods: tuple[Method, ...]


@dataclass(frozen=True)
class Outcome:
    """A method in a cell. values: test queries x METRICS, NaN without a relevant document.

    moved: average position after re-ranking of the documents first shown at 1, 2, ... biases: t+
    and t- by position, if the method learned them.
    """

    values: np.ndarray
    moved: np.ndarray
    seconds: float
    biases: tuple[np.ndarray, np.ndarray] | None = None


@dataclass
class Results:
    """Outcomes by world, method and seed; seeds are stacked in one order."""

    outcomes: dict[tuple[World, str], list[Outcome]] = field(default_factory=dict)

    def has(self, world: World, method: Method) -> bool:
        """Return whether the method was run in the world."""
        return (world, method.name) in self.outcomes

    def values(self, world: World, method: Method, metric: str) -> list[np.ndarray]:
        """Return the metric of the test queries, an array for each seed."""
        column = METRICS.index(metric)
        return [outcome.values[:, column] for outcome in self.outcomes[world, method.name]]

    def mean(self, world: World, method: Method, metric: str) -> float:
        """Return the mean over queries and seeds."""
        return float(np.mean([np.nanmean(v) for v in self.values(world, method, metric)]))

    def spread(self, world: World, method: Method, metric: str) -> float:
        """Return the standard deviation over seeds of the mean over queries."""
        means = [np.nanmean(v) for v in self.values(world, method, metric)]
        return float(np.std(means, ddof=1)) if len(means) > 1 else 0.0


def run_cell(task: Task) -> dict[str, Outcome]:
    """Draw the log, train every method on it and evaluate."""
    pages = draw_pages(task.scale, task.world, task.seed)
    bench = Bench(pages, task.world, task.seed, task.scale.trees)
    outcomes = {}
    for method in task.methods:
        start = time.perf_counter()
        ranker = TRAINERS[method.ranker](bench, method)
        corpus, first = pages.corpus, int(pages.corpus.offsets[pages.queries])
        offsets = corpus.offsets[pages.queries :] - first
        scores = np.asarray(ranker.predict(corpus.features[first:]), np.float64)
        values = ranking_metrics(scores, corpus.labels[first:], offsets)[:, : len(METRICS)]
        learned = ranker.biases if isinstance(ranker.biases, Biases) else None
        biases = learned and (learned.t_plus, learned.t_minus)
        moved = _moved(corpus.scores[first:], scores, offsets)
        outcomes[method.name] = Outcome(values, moved, time.perf_counter() - start, biases)
    return outcomes


def _moved(shown: np.ndarray, scores: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Return the average new position of the documents at each of the first positions."""
    total, count = np.zeros(POSITIONS), np.zeros(POSITIONS)
    for start, end in pairwise(offsets.tolist()):
        size = min(end - start, POSITIONS)
        place = np.empty(end - start, int)
        place[np.argsort(-scores[start:end], kind="stable")] = np.arange(1, end - start + 1)
        first = np.argsort(-shown[start:end], kind="stable")[:size]
        total[:size] += place[first]
        count[:size] += 1
    return total / np.maximum(count, 1)


def run_cells(
    scale: Scale, worlds: Iterable[tuple[World, Sequence[Method]]], *, processes: int
) -> Results:
    """Compute the cells of all worlds and seeds in parallel."""
    tasks = [
        Task(scale, world, seed, tuple(available(list(methods))))
        for world, methods in worlds
        for seed in range(1, scale.seeds + 1)
    ]
    results = Results()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for task, outcomes in zip(tasks, pool.map(run_cell, tasks), strict=True):
            for name, outcome in outcomes.items():
                results.outcomes.setdefault((task.world, name), []).append(outcome)
    return results
