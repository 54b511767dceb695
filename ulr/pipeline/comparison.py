"""Several models on the same days, from the daily groups to one comparison; only what is missing.

Everything is in a folder of its own beside the warehouse, so that what tonight's model is made
from stays as it is, and the log is not read.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from rich.table import Table

from ulr.cli.commands import evaluate
from ulr.cli.progress import steps, watched
from ulr.cli.terminal import say
from ulr.config.settings import Settings
from ulr.dates import held_out
from ulr.engine.session import start_session
from ulr.errors import RegistryUnavailable
from ulr.evaluation.metrics import LOGGING
from ulr.evaluation.stage import EvaluationOutcome
from ulr.evaluation.totals import Estimate, metric_values
from ulr.groups.window import window_dates
from ulr.models.published import read_model
from ulr.pairs.stage import build_pairs
from ulr.pipeline.fit import Trial, fit
from ulr.propensity.examination import WAREHOUSE
from ulr.propensity.stage import build_propensities
from ulr.registry.client import registry_of
from ulr.registry.submission import submission
from ulr.warehouse.lock import hold
from ulr.warehouse.overlay import OverlayWarehouse
from ulr.warehouse.tables import Outcome, Warehouse

FOLDER = "reruns"


@dataclass(frozen=True)
class Compared:
    """Trials side by side. tables: every one that was made, or was there already."""

    trials: Sequence[Trial]
    dates: list[dt.date]
    tables: list[Outcome]
    judged: EvaluationOutcome

    @property
    def names(self) -> list[str]:
        """As they are shown."""
        return [trial.name for trial in self.trials]


def beside(settings: Settings, name: str) -> OverlayWarehouse:
    """The folder of a re-run."""
    return OverlayWarehouse(Warehouse(settings.warehouse.path), FOLDER, name)


def compare_trials(
    title: str, trials: Sequence[Trial], window: str, *, force: bool = False
) -> Compared:
    """Make what is missing of every trial and judge them all, as the first one's settings say."""
    first = trials[0]
    with hold(first.warehouse.storage, "", title):
        dates = window_dates(first.warehouse, window, 0)
        trained, judged_by = held_out(dates, first.settings.evaluate.holdout == "time")
        tables = _propensities(title, trials, dates, force) + _pairs(title, trials, trained, force)
        tables += fit(trials, force=force)
        span = f"{judged_by[0]}..{judged_by[-1]}"
        texts = {trial.name: read_model(trial.warehouse, trial.method) for trial in trials}
        with watched(f"{title}: evaluate"):
            judged = evaluate.judge(first.warehouse, span, texts, first.settings, force=force)
    return Compared(trials, dates, [*tables, judged], judged)


def comparison_table(compared: Compared) -> Table:
    """A row per model and metrics beside each other; in brackets how far the first one leads."""
    totals, first = compared.judged.totals, compared.names[0]
    ours = metric_values(totals, first)
    shown = [metric for metric in evaluate.SHOWN if metric in ours]
    queries = max((estimate.queries for estimate in ours.values()), default=0)
    table = Table(title=f"judged by {queries:,} queries; (lead of {first}; * its 95% interval has "
                        "no 0)")  # fmt: skip
    table.add_column("model")
    for metric in shown:
        table.add_column(metric, justify="right")
    for name in (*compared.names, LOGGING):
        found, leads = metric_values(totals, name), metric_values(totals, first, name)
        table.add_row(name, *(_cell(found[m], leads.get(m)) for m in shown))
    return table


def _cell(found: Estimate, lead: Estimate | None) -> str:
    if lead is None:
        return f"{found.value:.4f}"
    clear = "*" if lead.lower > 0 or lead.upper < 0 else ""
    return f"{found.value:.4f} ({lead.value:+.4f}{clear})"


def send(title: str, compared: Compared, page: str) -> None:
    """One MLflow run with the table and the page, and a child for every model; nothing is
    registered."""
    first, totals = compared.trials[0], compared.judged.totals
    sent = [submission(t.warehouse, t.method, t.settings, totals, name=t.name)
            for t in compared.trials]  # fmt: skip
    window = f"{compared.dates[0]}..{compared.dates[-1]}"
    found = evaluate.found_of(compared.judged, compared.names)
    try:
        registry = registry_of(first.settings)
        registry.attach_report(registry.send_comparison(f"{title} {window}", sent, found), page)
    except RegistryUnavailable as away:
        raise RegistryUnavailable(
            f"{away}; the models and their metrics are in {first.warehouse.storage.shown()}: run "
            "the same command again to send them"
        ) from away


def _propensities(
    title: str, trials: Sequence[Trial], dates: list[dt.date], force: bool
) -> list[Outcome]:
    """Once for every folder that does not take another's."""
    made: dict[str, Outcome] = {}
    for trial in trials:
        settings, folder = trial.settings, trial.warehouse.storage.url
        measured = settings.pairs.propensities == WAREHOUSE
        if folder in made or not measured or not trial.warehouse.owns("propensities"):
            continue
        variant = trial.name.partition("@")[2]
        what = f"propensities of {variant}" if variant else "propensities"
        start = partial(start_session, "rerun", settings.spark)
        with watched(f"{title}: {what}"):
            made[folder] = build_propensities(
                start, trial.warehouse, dates, settings.propensities, force=force
            )
        _tell(what, made[folder])
    return list(made.values())


def _pairs(title: str, trials: Sequence[Trial], dates: list[dt.date], force: bool) -> list[Outcome]:
    made: list[Outcome] = []
    own = [trial for trial in trials if trial.warehouse.owns("pairs")]
    with steps(f"{title}: pairs", ["pairs"] * len(own), "methods") as step:
        for trial in own:
            with step("pairs", f"pairs of {trial.name}") as this:
                outcome = build_pairs(
                    partial(start_session, "rerun", trial.settings.spark),
                    trial.warehouse,
                    dates,
                    pairs=trial.settings.pairs,
                    features=trial.settings.features.path,
                    force=force,
                )
                this.skipped = outcome.skipped
            made.append(outcome)
            _tell(f"pairs of {trial.name}", outcome)
    return made


def _tell(what: str, outcome: Outcome) -> None:
    say(f"{what}: {'unchanged, skipped' if outcome.skipped else 'done'}")
