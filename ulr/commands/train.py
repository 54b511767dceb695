"""Train a ranking model on the published pairs of the configured method."""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.progress import Progress

from ulr.examination import known_propensities
from ulr.pairing import partition_name
from ulr.progress import say
from ulr.settings import Settings
from ulr.storage import Storage
from ulr.training.dataset import RankingData
from ulr.training.from_tables import TrainPlan, load_pairs, record_of, train_plan
from ulr.training.trainer import TrainedRanker
from ulr.warehouse import Warehouse, identity_of

EXAMPLE = "ulr train --set pairs.method=joint --set train.rounds=100"


def configure(parser: argparse.ArgumentParser) -> None:
    """Whether an unchanged model is trained again."""
    parser.add_argument("--force", action="store_true", help="also where nothing has changed")


def run(args: argparse.Namespace, settings: Settings) -> None:
    """Train, and publish model.txt with its record."""
    warehouse = Warehouse(settings.warehouse.path)
    method, partition = settings.pairs.method, partition_name(settings.pairs.method)
    files = warehouse.files("pairs", partition)
    plan = plan_of(settings, method)
    inputs = {"pairs": warehouse.current("pairs", partition).fingerprint}
    made = {"train": settings.train.model_dump(), "lightgbm": dict(settings.lightgbm)}
    identity = identity_of(inputs=inputs, settings=made)
    published = warehouse.current("models", partition)
    if published and published.fingerprint == identity and not args.force:
        say(f"train {method}: unchanged, skipped ({published.counts['trees']:,} trees)")
        return
    data = load_pairs(warehouse.storage.url, files)
    ranker = train_watched(data, plan)
    with warehouse.writing("models", partition, identity) as draft:
        folder = Storage(draft.url)
        folder.write_text(ranker.model_text(), "model.txt")
        folder.write_json(record_of(ranker, plan), "record.json")
        counts = {"trees": ranker.best_iteration, "rows": data.pairs.rows}
        draft.publish(identity, counts=counts, inputs=inputs, settings=made)
    say(
        f"train {method}: {ranker.best_iteration} trees on {data.pairs.rows:,} documents, "
        f"{data.pairs.pairs:,} pairs"
    )


def plan_of(settings: Settings, method: str) -> TrainPlan:
    """The settings of one training."""
    train = settings.train
    return TrainPlan(
        method=method,
        rounds=train.rounds,
        lightgbm=dict(settings.lightgbm),
        metric=train.metric,
        repair=train.repair,
        validation_share=train.validation_share,
        stop_on=train.stop_on,
        patience=train.patience,
        p=train.p,
        position_bins=train.position_bins,
        theta=_theta(settings) if train.theta_given else None,
    )


def train_watched(data: RankingData, plan: TrainPlan) -> TrainedRanker:
    """Train with a bar on stderr, where somebody watches."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task(f"train {plan.method}", total=plan.rounds)

        def tell(number: int, value: float | None) -> None:
            shown = "" if value is None else f" {plan.stop_on} {value:.5f}"
            bars.update(bar, completed=number, description=f"train {plan.method}{shown}")

        return train_plan(data, plan, tell)


def _theta(settings: Settings) -> np.ndarray:
    warehouse = Warehouse(settings.warehouse.path)
    return known_propensities(settings.pairs.propensities, warehouse)[0].theta
