"""Sessions in memory as the arrays that `Ranker.fit` takes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tests.support.worlds import Corpus, Log, click_log, synthetic_corpus


class SessionRows(NamedTuple):
    """One row per document that a session showed; sessions are adjacent, rows in order."""

    x: np.ndarray
    clicks: np.ndarray
    group: np.ndarray
    position: np.ndarray
    query: pa.Array
    doc: pa.Array
    theta: np.ndarray
    psi: pa.Table

    def fit_arguments(self, *, ids: bool = True) -> dict[str, Any]:
        """Return the keyword arguments of fit."""
        named = {"query": self.query, "doc": self.doc} if ids else {}
        return {"group": self.group, "position": self.position, **named}


def session_rows(
    queries: int = 60, sessions: int = 12, *, positions: int = 6, features: int = 8, seed: int = 1
) -> SessionRows:
    """Return simulated sessions of a corpus with several documents per query."""
    corpus = synthetic_corpus(seed, queries, positions + 2, features)
    log = click_log(corpus, queries, positions, sessions, model="continuous", seed=seed)
    return rows_of(corpus, log)


def rows_of(corpus: Corpus, log: Log) -> SessionRows:
    """Return the sessions of a log."""
    queries, sessions, positions = log.clicks.shape
    rows = np.repeat(log.documents, sessions, axis=0).reshape(-1)
    take = pa.array(rows)
    k, v = np.triu_indices(positions)
    return SessionRows(
        x=corpus.features[rows],
        clicks=log.clicks.reshape(-1).astype(np.int8),
        group=np.full(queries * sessions, positions),
        position=np.tile(np.arange(1, positions + 1), queries * sessions),
        query=corpus.names.query_of_document.take(take),
        doc=corpus.names.documents.take(take),
        theta=log.truth.theta,
        psi=pa.table({"k": k + 1, "l": v + 1, "psi": log.truth.psi[k, v]}),
    )
