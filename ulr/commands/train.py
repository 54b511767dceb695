"""Train a ranking model on the published pairs of the configured method."""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np

from ulr.examination import known_propensities
from ulr.modelling import ModelOutcome, build_model
from ulr.progress import say, watched_rounds
from ulr.session import start_session
from ulr.settings import Settings
from ulr.training.dataset import RankingData
from ulr.training.from_tables import TrainPlan, train_plan
from ulr.training.trainer import TrainedRanker
from ulr.warehouse import Warehouse

EXAMPLE = "ulr train --set pairs.method=joint --set train.num_workers=2"


def configure(parser: argparse.ArgumentParser) -> None:
    """Whether an unchanged model is trained again."""
    parser.add_argument("--force", action="store_true", help="also where nothing has changed")


def run(args: argparse.Namespace, settings: Settings) -> None:
    """Train, and publish model.txt with its record."""
    plan = plan_of(settings, settings.pairs.method)
    with watched_rounds(f"train {plan.method}", plan.rounds, plan.stop_on) as tell:
        outcome = build_model(
            partial(start_session, "train", settings.spark),
            Warehouse(settings.warehouse.path),
            plan,
            settings.train,
            force=args.force,
            tell=tell,
        )
    say(f"train {plan.method}: {_describe(outcome)}")


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
        checkpoint_every=train.checkpoint_every,
    )


def train_watched(data: RankingData, plan: TrainPlan) -> TrainedRanker:
    """Train in this process, with a bar on stderr where somebody watches."""
    with watched_rounds(f"train {plan.method}", plan.rounds, plan.stop_on) as tell:
        return train_plan(data, plan, tell)


def _describe(outcome: ModelOutcome) -> str:
    counts = outcome.manifest.counts
    if outcome.training is None:
        return f"unchanged, skipped ({counts['trees']:,} trees)"
    text = f"{counts['trees']} trees on {counts['rows']:,} documents, {counts['pairs']:,} pairs"
    workers, failures = outcome.training.reports, outcome.training.failures
    if len(workers) > 1:
        text += f", by {len(workers)} workers"
    for number, reason in enumerate(failures, start=1):
        text += f"\n  attempt {number} failed and was taken up again: {reason}"
    return text


def _theta(settings: Settings) -> np.ndarray:
    warehouse = Warehouse(settings.warehouse.path)
    return known_propensities(settings.pairs.propensities, warehouse)[0].theta
