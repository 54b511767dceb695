"""Debiasing of LightGBM and XGBoost on sessions, stopped by NDCG@10 of held-out clicks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import lightgbm as lgb
import numpy as np

from ulr.features.split import sample_queries

if TYPE_CHECKING:
    from tests.bench.letor import World

Predict = Callable[[np.ndarray], np.ndarray]
POSITION, PLAIN, XGBOOST = "LightGBM position", "LightGBM plain", "XGBoost unbiased"
SMALL = "LightGBM position, 7 leaves"  # the number that `auto` chooses on few queries
PEERS = (POSITION, SMALL, PLAIN, XGBOOST)
PATIENCE = 50
_LIGHTGBM = {"objective": "lambdarank", "learning_rate": 0.05, "verbose": -1,
             "feature_fraction": 0.9, "metric": "ndcg", "eval_at": [10], "seed": 7}  # fmt: skip


def train_peer(
    world: World, name: str, validation: float, *, trees: int, threads: int
) -> tuple[Predict, int]:
    """Return the model of a peer, or of golden labels, and its number of trees."""
    held_out = sample_queries(world.corpus.names.queries, validation, "validation")[: world.queries]
    if name == "labels":
        every = np.arange(world.queries)
        parts = [_labelled(world, every[~held_out]), _labelled(world, every[held_out])]
        return _lightgbm(parts, trees, threads, position=False)
    parts = [_sessions(world, held_out[world.query] == kind) for kind in (False, True)]
    if name == XGBOOST:
        return _xgboost(parts, trees, threads)
    leaves = 7 if name == SMALL else 31
    return _lightgbm(parts, trees, threads, position=name != PLAIN, leaves=leaves)


Part = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # features, labels, sizes, positions


def _sessions(world: World, chosen: np.ndarray) -> Part:
    documents, clicks = world.documents[world.query[chosen]], world.clicks[chosen]
    present = documents >= 0
    position = np.broadcast_to(np.arange(documents.shape[1]), documents.shape)[present]
    x = world.corpus.features[documents[present]]
    return x, clicks[present].astype(np.int32), present.sum(axis=1), position


def _labelled(world: World, queries: np.ndarray) -> Part:
    documents = world.documents[queries]
    present = documents >= 0
    rows = documents[present]
    labels = world.corpus.labels[rows]
    return world.corpus.features[rows], labels, present.sum(axis=1), np.zeros(rows.size, int)


def _lightgbm(parts: list[Part], trees: int, threads: int, *, position: bool, leaves: int = 31):
    x, y, sizes, places = parts[0]
    data = lgb.Dataset(x, y, group=sizes, position=places if position else None)
    held_out = lgb.Dataset(parts[1][0], parts[1][1], group=parts[1][2], reference=data)
    stop = lgb.early_stopping(PATIENCE, verbose=False)
    own = {**_LIGHTGBM, "num_leaves": leaves, "num_threads": threads}
    booster = lgb.train(own, data, trees, valid_sets=[held_out], callbacks=[stop])
    return booster.predict, booster.best_iteration


def _xgboost(parts: list[Part], trees: int, threads: int) -> tuple[Predict, int]:
    import xgboost as xgb

    data = xgb.QuantileDMatrix(parts[0][0], parts[0][1], group=parts[0][2])
    held_out = xgb.DMatrix(parts[1][0], parts[1][1], group=parts[1][2])
    own = {"objective": "rank:ndcg", "lambdarank_unbiased": True, "eta": 0.05, "max_leaves": 31,
           "lambdarank_pair_method": "topk", "lambdarank_num_pair_per_sample": 30, "max_depth": 0,
           "grow_policy": "lossguide", "colsample_bytree": 0.9, "nthread": threads,
           "eval_metric": "ndcg@10", "seed": 7}  # fmt: skip
    booster = xgb.train(
        own, data, trees, evals=[(held_out, "clicks")], early_stopping_rounds=PATIENCE,
        verbose_eval=False,
    )  # fmt: skip
    best = booster.best_iteration + 1
    return lambda x: booster.predict(xgb.DMatrix(x), iteration_range=(0, best)), best
