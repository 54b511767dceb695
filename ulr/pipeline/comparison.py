"""A comparison of models, as `compare` and `rerun` run it: trials, page, MLflow runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ulr.config.settings import Settings
from ulr.engine.interface import Engine
from ulr.errors import RegistryUnavailable
from ulr.pipeline.events import Events
from ulr.pipeline.fit import Trial
from ulr.pipeline.judge import estimates_of
from ulr.pipeline.reports import report_comparison
from ulr.pipeline.trials import TrialResults, run_trials
from ulr.registry.client import registry_of
from ulr.registry.comparison import log_comparison
from ulr.registry.submission import collect_submission


@dataclass(frozen=True)
class Comparison:
    """kind and name: of the report. title: in messages. metric: the one that decides."""

    kind: str
    name: str
    title: str
    metric: str


def run_comparison(
    engine: Engine,
    comparison: Comparison,
    trials: Sequence[Trial],
    window: str,
    settings: Settings,
    *,
    events: Events,
    show: Callable[[TrialResults], None],
    force: bool = False,
) -> TrialResults:
    """Run the trials, show the results, publish the page, and log everything to MLflow."""
    results = run_trials(engine, comparison.title, trials, window, events, force=force)
    show(results)
    page = report_comparison(
        comparison.kind, comparison.name, results, settings,
        metric=comparison.metric, events=events,
    )  # fmt: skip
    _log_to_mlflow(comparison.title, results, page)
    return results


def _log_to_mlflow(title: str, results: TrialResults, page: str) -> None:
    """Log one run with the table and the page, and a child run per model; register nothing."""
    first, totals = results.trials[0], results.evaluation.totals
    models = [collect_submission(t.warehouse, t.settings, totals, name=t.name)
              for t in results.trials]  # fmt: skip
    window = f"{results.dates[0]}..{results.dates[-1]}"
    estimates = estimates_of(results.evaluation, results.names)
    try:
        registry = registry_of(first.settings)
        run = log_comparison(registry, first.warehouse, f"{title} {window}", models, estimates)
        registry.attach_report(run, page)
    except RegistryUnavailable as error:
        raise RegistryUnavailable(
            f"{error}; the models and their metrics are in {first.warehouse.storage.shown()}: run "
            "the same command again to log them"
        ) from error
