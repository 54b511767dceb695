"""Train several models on the same dates and evaluate them together.

Everything is written to an overlay of the warehouse, so the nightly tables stay as they are. The
daily groups are shared: the log is not read again, and tables that are up to date are kept.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from ulr.config.settings import Settings
from ulr.dates import held_out
from ulr.engine.interface import Engine
from ulr.evaluation.stage import EvaluationOutcome
from ulr.groups.window import window_dates
from ulr.models.published import read_model
from ulr.pairs.stage import build_pairs
from ulr.pipeline.events import Events
from ulr.pipeline.fit import Trial, fit
from ulr.pipeline.judge import evaluate_window
from ulr.propensity.examination import WAREHOUSE
from ulr.propensity.stage import build_propensities
from ulr.warehouse.lock import hold
from ulr.warehouse.overlay import OverlayWarehouse
from ulr.warehouse.tables import Outcome, open_warehouse

FOLDER = "reruns"


@dataclass(frozen=True)
class TrialResults:
    """Trials with their evaluation. tables: every table written or found up to date."""

    trials: Sequence[Trial]
    dates: list[dt.date]
    tables: list[Outcome]
    evaluation: EvaluationOutcome

    @property
    def names(self) -> list[str]:
        """Display names of the trials."""
        return [trial.name for trial in self.trials]


def overlay_of(settings: Settings, name: str) -> OverlayWarehouse:
    """Return the overlay of a re-run."""
    return OverlayWarehouse(open_warehouse(settings.warehouse), FOLDER, name)


def run_trials(
    engine: Engine,
    title: str,
    trials: Sequence[Trial],
    window: str,
    events: Events,
    *,
    force: bool = False,
) -> TrialResults:
    """Build what is missing and evaluate all trials, by the evaluation settings of the first."""
    first = trials[0]
    with hold(first.warehouse.storage, "", title):
        dates = window_dates(first.warehouse, window, 0)
        trained, evaluated = held_out(dates, first.settings.evaluate.holdout == "time")
        tables = _propensities(engine, title, trials, dates, events=events, force=force)
        tables += _pairs(engine, title, trials, trained, events=events, force=force)
        tables += fit(engine, trials, events, force=force)
        span = f"{evaluated[0]}..{evaluated[-1]}"
        texts = {trial.name: read_model(trial.warehouse, trial.method) for trial in trials}
        with events.tasks(f"{title}: evaluate"):
            evaluation = evaluate_window(
                engine, first.warehouse, span, texts, first.settings, force=force
            )
    return TrialResults(trials, dates, [*tables, evaluation], evaluation)


def _propensities(
    engine: Engine,
    title: str,
    trials: Sequence[Trial],
    dates: list[dt.date],
    *,
    events: Events,
    force: bool,
) -> list[Outcome]:
    """Estimate once per overlay that does not share the propensities of another."""
    outcomes: dict[str, Outcome] = {}
    for trial in trials:
        settings, url = trial.settings, trial.warehouse.storage.url
        estimated = settings.pairs.propensities == WAREHOUSE
        if url in outcomes or not estimated or not trial.warehouse.owns("propensities"):
            continue
        variant = trial.name.partition("@")[2]
        what = f"propensities of {variant}" if variant else "propensities"
        with events.tasks(f"{title}: {what}"):
            outcomes[url] = build_propensities(
                engine, trial.warehouse, dates, settings.propensities,
                features=settings.features, plan_file=settings.plan_swaps.plan, force=force,
            )  # fmt: skip
        events.line(_line(what, outcomes[url]))
    return list(outcomes.values())


def _pairs(
    engine: Engine,
    title: str,
    trials: Sequence[Trial],
    dates: list[dt.date],
    *,
    events: Events,
    force: bool,
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    own = [trial for trial in trials if trial.warehouse.owns("pairs")]
    with events.steps(f"{title}: pairs", len(own), "methods") as step:
        for trial in own:
            with step(f"pairs of {trial.name}"):
                outcome = build_pairs(
                    engine,
                    trial.warehouse,
                    dates,
                    pairs=trial.settings.pairs,
                    features=trial.settings.features,
                    feedback=trial.settings.log.feedback,
                    force=force,
                )
            outcomes.append(outcome)
            events.line(_line(f"pairs of {trial.name}", outcome))
    return outcomes


def _line(what: str, outcome: Outcome) -> str:
    return f"{what}: {'unchanged, skipped' if outcome.skipped else 'done'}"
