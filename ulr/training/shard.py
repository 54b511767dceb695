"""The data of a rank: pair tables in, binned rows and pair lists out.

Tables arrive one after the other. Their features are binned at once and dropped, so there is never
a second copy of the matrix.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import lightgbm as lgb
import numpy as np
import pyarrow as pa

from ulr.engine.columns import hashes
from ulr.features.matrix import check_width
from ulr.kernels.layout import PairLists, concat_pairs
from ulr.training.bins import BinnedRows, Bins
from ulr.training.data import RankingData

_NO_FEATURES = np.zeros((0, 0), np.float32)


@dataclass(frozen=True)
class TrainShard:
    """data: without features; keys: uint64, a hash of each query's name; dataset: the binned rows;
    scores: float64, of the model so far."""

    data: RankingData
    keys: np.ndarray
    dataset: lgb.Dataset
    scores: np.ndarray

    @property
    def rows(self) -> int:
        """Number of (query, document)."""
        return self.data.pairs.rows


@dataclass(frozen=True)
class RankShards:
    """The data of one rank."""

    train: TrainShard
    validation: TrainShard | None = None


class ShardBuilder:
    """A shard of a known number of rows, which are added in pieces."""

    def __init__(self, bins: Bins, rows: int, model: str = "") -> None:
        self._rows, self._width = BinnedRows(bins, rows), bins.width
        self._model = lgb.Booster(model_str=model) if model else None
        self._threads = int(bins.parameters.get("num_threads", 0))
        self._pieces: list[RankingData] = []
        self._scores: list[np.ndarray] = []

    def add(self, piece: RankingData) -> None:
        """Bin a piece's rows, score them with the model so far, and keep the rest of the piece."""
        width = np.array([piece.features.shape[1]])
        check_width(width, width=self._width, name=lambda _: f"query {piece.query_ids[0]}")
        self._rows.push(piece.features)
        scores = np.zeros(len(piece.features))
        if self._model is not None:
            # Summed tree by tree in order, as in training: the scores are equal to the last bit.
            scores = np.asarray(
                self._model.predict(piece.features, raw_score=True, num_threads=self._threads),
                np.float64,
            )
        self._scores.append(scores)
        self._pieces.append(_without_features(piece))

    def finish(self) -> TrainShard:
        """Return the shard; all rows must have been added."""
        names = pa.concat_arrays([piece.query_ids for piece in self._pieces])
        labels = np.concatenate([piece.labels for piece in self._pieces])
        pairs = concat_pairs([piece.pairs for piece in self._pieces])
        self._pieces = []
        data = RankingData(names, _NO_FEATURES, labels, pairs)
        return TrainShard(data, hashes(names), self._rows.finish(), np.concatenate(self._scores))


def build_shard(
    pieces: Iterable[RankingData], bins: Bins, rows: int, model: str = ""
) -> TrainShard:
    """Return the shard of all pieces. rows: their total."""
    builder = ShardBuilder(bins, rows, model)
    for piece in pieces:
        builder.add(piece)
    return builder.finish()


def _without_features(piece: RankingData) -> RankingData:
    """Copy everything but the features: slices would keep the whole table in memory."""
    pairs = PairLists(*(np.array(column) for column in piece.pairs))
    names = pa.concat_arrays([piece.query_ids, piece.query_ids.slice(0, 0)])
    return RankingData(names, _NO_FEATURES, np.array(piece.labels), pairs)
