"""One worker's share of the data: pair tables in, binned rows and pair lists out.

Tables come one after the other, as Spark hands them over; features are binned at once and let
go, so no second copy of the matrix exists at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np
import pyarrow as pa

from ulr.engine.columns import hashes
from ulr.errors import UserError
from ulr.kernels.layout import PairLists, concat_pairs
from ulr.training.bins import BinnedRows
from ulr.training.data import RankingData


@dataclass(frozen=True)
class Bins:
    """What all workers share of the features: their number, the bins, how to read them."""

    reference: bytes
    width: int
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class TrainShard:
    """data: without its features; keys: a hash of each query's name; dataset: the binned rows."""

    data: RankingData
    keys: np.ndarray
    dataset: lgb.Dataset
    scores: np.ndarray

    @property
    def rows(self) -> int:
        """How many (query, document)."""
        return self.data.pairs.rows


class ShardBuilder:
    """Takes pieces of a shard whose number of rows is known beforehand."""

    def __init__(self, bins: Bins, rows: int, model: str = "") -> None:
        self._rows = BinnedRows(bins.reference, rows, bins.width, bins.parameters)
        self._model = lgb.Booster(model_str=model) if model else None
        self._threads = int(bins.parameters.get("num_threads", 0))
        self._pieces: list[RankingData] = []
        self._scores: list[np.ndarray] = []

    def add(self, piece: RankingData) -> None:
        """Bin a piece's rows and keep the rest of it; score them where training goes on."""
        if piece.features.shape[1] != self._rows.width:
            raise UserError(
                f"query {piece.query_ids[0]} has {piece.features.shape[1]} features a row, others "
                f"{self._rows.width}; features must have one length for all"
            )
        self._rows.push(piece.features.reshape(-1))
        scores = np.zeros(len(piece.features))
        if self._model is not None:
            # Tree by tree in their order, as training added them up: the very same numbers.
            scores = self._model.predict(
                piece.features, raw_score=True, num_threads=self._threads
            ).astype(np.float64)
        self._scores.append(scores)
        self._pieces.append(_without_features(piece))

    def finish(self) -> TrainShard:
        """The shard, once all its rows are there."""
        names = pa.concat_arrays([piece.query_ids for piece in self._pieces])
        data = RankingData(
            names,
            np.zeros((0, 0), np.float32),
            np.concatenate([piece.labels for piece in self._pieces]),
            concat_pairs([piece.pairs for piece in self._pieces]),
        )
        self._pieces = []
        return TrainShard(data, hashes(names), self._rows.finish(), np.concatenate(self._scores))


def build_shard(
    pieces: Iterable[RankingData], bins: Bins, rows: int, model: str = ""
) -> TrainShard:
    """A shard from all its pieces."""
    builder = ShardBuilder(bins, rows, model)
    for piece in pieces:
        builder.add(piece)
    return builder.finish()


def _without_features(piece: RankingData) -> RankingData:
    """Copies of everything but the features: slices would keep the whole table alive."""
    pairs = PairLists(*(np.array(column) for column in piece.pairs))
    names = pa.concat_arrays([piece.query_ids, piece.query_ids.slice(0, 0)])
    return RankingData(names, np.zeros((0, 0), np.float32), np.array(piece.labels), pairs)
