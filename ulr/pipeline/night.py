"""One night: every stage of a date as the settings define it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ulr.config.settings import Settings
from ulr.dates import held_out
from ulr.engine.interface import Engine
from ulr.errors import DamagedTable, UserError
from ulr.evaluation.metrics import LOGGING
from ulr.evaluation.totals import Totals, metric_values
from ulr.groups.stage import build_groups
from ulr.groups.window import damage_of, window_dates
from ulr.models.published import read_model
from ulr.pairs.stage import build_pairs
from ulr.pipeline.describe import (
    describe_decision,
    describe_groups,
    describe_pairs,
    describe_training,
    with_status,
)
from ulr.pipeline.events import SILENT, Events
from ulr.pipeline.fit import Trial, fit
from ulr.pipeline.judge import challenge_champion, evaluate_window
from ulr.pipeline.stage_runner import StageResult
from ulr.propensity.stage import build_propensities
from ulr.propensity.tables import summary_lines
from ulr.registry import CHAMPION
from ulr.warehouse.tables import Outcome, Warehouse, open_warehouse

STAGES = ("groups", "propensities", "pairs", "train", "evaluate", "promote")


@dataclass(frozen=True)
class Night:
    """The stages of one date, as the settings define them."""

    engine: Engine
    settings: Settings
    date: dt.date
    force: bool = False
    events: Events = SILENT

    @property
    def methods(self) -> list[str]:
        """The configured method, then the baselines."""
        return list(dict.fromkeys([self.settings.pairs.method, *self.settings.nightly.baselines]))

    @property
    def warehouse(self) -> Warehouse:
        """The warehouse of the settings."""
        return open_warehouse(self.settings.warehouse)

    def stages(self) -> list[tuple[str, Callable[[], StageResult]]]:
        """Return every stage with its name."""
        return [(name, getattr(self, f"_{name}")) for name in STAGES]

    def window(self) -> list[dt.date]:
        """Return the published dates of the window that ends with this night's date."""
        days = self.settings.propensities.window_days
        return window_dates(self.warehouse, str(self.date), days)

    def training_dates(self) -> list[dt.date]:
        """Return the window, without its last date if that is held out."""
        return held_out(self.window(), self.settings.evaluate.holdout == "time")[0]

    def evaluation_window(self) -> str:
        """Return the dates to evaluate on, as D1..D2."""
        dates = held_out(self.window(), self.settings.evaluate.holdout == "time")[1]
        return f"{dates[0]}..{dates[-1]}"

    def _trials(self) -> list[Trial]:
        return [Trial(m, self.warehouse, self.settings.with_method(m)) for m in self.methods]

    def _groups(self) -> StageResult:
        outcome = self._build_groups(self.date, force=self.force)
        message, rebuilt = describe_groups(outcome), self._rebuild_damaged()
        return StageResult("; ".join([message, *rebuilt]), outcome.skipped and not rebuilt)

    def _build_groups(self, date: dt.date, *, force: bool = False) -> Outcome:
        return build_groups(
            self.engine, self.warehouse, date, log=self.settings.log,
            groups=self.settings.groups, force=force,
        )  # fmt: skip

    def _rebuild_damaged(self) -> list[str]:
        """Rebuild the damaged groups of the window's other dates; return a message for each."""
        rebuilt = []
        for date in self.window():
            if damage := damage_of(self.warehouse, date):
                try:
                    self._build_groups(date)
                except UserError as error:
                    raise DamagedTable(f"{damage}, and it cannot be rebuilt: {error}") from None
                rebuilt.append(f"groups of {date} rebuilt, because {damage}")
        return rebuilt

    def _propensities(self) -> StageResult:
        outcome = build_propensities(
            self.engine, self.warehouse, self.window(), self.settings.propensities,
            features=self.settings.features, plan_file=self.settings.plan_swaps.plan,
            force=self.force,
        )  # fmt: skip
        if outcome.skipped:
            return StageResult("unchanged", skipped=True)
        lines = [*summary_lines(outcome.results)[:2], *filter(None, [outcome.change])]
        return StageResult(with_status(outcome, _joined(lines)))

    def _pairs(self) -> StageResult:
        outcomes = [
            build_pairs(
                self.engine, self.warehouse, self.training_dates(), force=self.force,
                pairs=trial.settings.pairs, features=trial.settings.features,
                feedback=trial.settings.log.feedback,
            )
            for trial in self._trials()
        ]  # fmt: skip
        return StageResult(describe_pairs(outcomes[0]), all(o.skipped for o in outcomes))

    def _train(self) -> StageResult:
        outcomes = fit(self.engine, self._trials(), self.events, force=self.force)
        message = _joined(describe_training(outcomes[0]).splitlines())
        return StageResult(message, all(outcome.skipped for outcome in outcomes))

    def _evaluate(self) -> StageResult:
        metric = self.settings.promote.metric
        models = {method: read_model(self.warehouse, method) for method in self.methods}
        outcome = evaluate_window(
            self.engine,
            self.warehouse,
            self.evaluation_window(),
            models,
            self.settings,
            force=self.force,
        )
        value = metric_values(outcome.totals, self.methods[0]).get(metric)
        message = (
            f"{metric} {value.value:.4f} [{value.lower:.4f}, {value.upper:.4f}]" if value else ""
        )
        message = with_status(outcome, message) if outcome.damage else message
        metrics = {name: _values(outcome.totals, name) for name in (*self.methods, LOGGING)}
        details = {"pages": self._pages(), "metrics": metrics}
        return StageResult(message, outcome.skipped, details=details)

    def _pages(self) -> int:
        manifests = (self.warehouse.current("groups", f"dt={date}") for date in self.window())
        return sum(m.counts["pages"] for m in manifests if m)

    def _promote(self) -> StageResult:
        decision = challenge_champion(
            self.engine, self.evaluation_window(), self.settings, warn=self.events.warning
        )
        message = _joined(describe_decision(decision).splitlines())
        kept = _values(decision.totals, CHAMPION) if decision.outcome == "kept" else {}
        details = decision.to_json() | {"champion_metrics": kept}
        return StageResult(message, decision.outcome == "champion", decision.outcome, details)


def _values(totals: Totals | None, name: str) -> dict[str, float]:
    """Return one ranking's metrics over all traffic."""
    estimates = metric_values(totals or Totals(), name)
    return {metric: estimate.value for metric, estimate in estimates.items()}


def _joined(lines: Sequence[str]) -> str:
    return "; ".join(line.strip() for line in lines)
