"""Train a ranking model on the published pairs of the configured method."""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np

from ulr.examination import known_propensities
from ulr.modelling import NO_MATTER, ModelOutcome, build_model
from ulr.progress import watched_rounds
from ulr.session import start_session
from ulr.settings import Settings
from ulr.terminal import Answer, say
from ulr.training.dataset import RankingData
from ulr.training.from_tables import TrainPlan, train_plan
from ulr.training.trainer import TrainedRanker
from ulr.warehouse import Warehouse

EXAMPLE = "ulr train --set pairs.method=joint --set train.num_workers=2"


def configure(parser: argparse.ArgumentParser) -> None:
    """Whether an unchanged model is trained again."""
    parser.add_argument("--force", action="store_true", help="also where nothing has changed")


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Train, and publish model.txt with its record."""
    outcome = fit(settings, force=args.force)
    say(f"train {settings.pairs.method}: {describe(outcome)}")
    failures = outcome.training.failures if outcome.training else []
    return Answer(outcome.to_json() | {"failures": failures})


def fit(settings: Settings, *, force: bool) -> ModelOutcome:
    """The configured method's model, from its published pairs."""
    plan = plan_of(settings, settings.pairs.method)
    with watched_rounds(f"train {plan.method}", plan.rounds, plan.stop_on) as tell:
        return build_model(
            partial(start_session, "train", settings.spark),
            Warehouse(settings.warehouse.path),
            plan,
            settings.train,
            force=force,
            tell=tell,
        )


def plan_of(settings: Settings, method: str) -> TrainPlan:
    """The settings of one training."""
    theta = _theta(settings) if settings.train.theta_given else None
    how = settings.train.model_dump(exclude={"theta_given", *NO_MATTER})
    return TrainPlan(method=method, lightgbm=dict(settings.lightgbm), theta=theta, **how)


def train_watched(data: RankingData, plan: TrainPlan) -> TrainedRanker:
    """Train in this process, with a bar on stderr where somebody watches."""
    with watched_rounds(f"train {plan.method}", plan.rounds, plan.stop_on) as tell:
        return train_plan(data, plan, tell)


def describe(outcome: ModelOutcome) -> str:
    """What it was trained on, and what went wrong on the way."""
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
