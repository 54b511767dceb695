"""The stages of one night, each as its own command would run it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession

from ulr.cli.commands import evaluate, groups, pairs, promote
from ulr.cli.progress import Stepping
from ulr.config.settings import Settings
from ulr.dates import held_out
from ulr.engine.session import start_session
from ulr.evaluation.metrics import LOGGING
from ulr.evaluation.totals import Totals, metric_values
from ulr.groups.stage import build_groups
from ulr.groups.window import window_dates
from ulr.models.published import read_model
from ulr.pairs.stage import build_pairs
from ulr.pipeline.fit import Trial, describe, fit
from ulr.pipeline.night import Done, Step
from ulr.propensity.stage import build_propensities
from ulr.propensity.tables import summary_lines
from ulr.registry import CHAMPION
from ulr.warehouse.tables import Warehouse

STAGES = ("groups", "propensities", "pairs", "train", "evaluate", "promote")


@dataclass(frozen=True)
class Night:
    """The stages of one date, as the settings say."""

    settings: Settings
    date: dt.date
    force: bool

    @property
    def methods(self) -> list[str]:
        """The configured one, then those it is compared with."""
        return list(dict.fromkeys([self.settings.pairs.method, *self.settings.nightly.baselines]))

    @property
    def warehouse(self) -> Warehouse:
        """Where everything is."""
        return Warehouse(self.settings.warehouse.path)

    def steps(self, stepping: Stepping) -> list[Step]:
        """The stages in their order, each told to whoever watches."""
        return [
            Step(name, partial(self._watched, stepping, name, getattr(self, name)))
            for name in STAGES
        ]

    def _watched(self, stepping: Stepping, name: str, body: Callable[[], Done]) -> Done:
        with stepping(name, f"{self.date} {name}") as this:
            done = body()
            this.skipped = done.skipped
            return done

    def start(self) -> SparkSession:
        """The one session of the night."""
        return start_session("nightly", self.settings.spark)

    def window(self) -> list[dt.date]:
        """The published dates up to this one."""
        days = self.settings.propensities.window_days
        return window_dates(self.warehouse, str(self.date), days)

    def trained_on(self) -> list[dt.date]:
        """The window; without its last day where that is what the model is judged by."""
        return held_out(self.window(), self.settings.evaluate.holdout == "time")[0]

    def judged_by(self) -> str:
        """The same as a --date."""
        dates = held_out(self.window(), self.settings.evaluate.holdout == "time")[1]
        return f"{dates[0]}..{dates[-1]}"

    def trials(self) -> list[Trial]:
        """The method and its baselines."""
        return [Trial(m, self.warehouse, self.settings.with_method(m)) for m in self.methods]

    def groups(self) -> Done:
        """The date's log, reduced."""
        outcome = build_groups(
            self.start, self.warehouse, self.date, log=self.settings.log,
            groups=self.settings.groups, force=self.force,
        )  # fmt: skip
        return Done(groups.describe(outcome), outcome.skipped)

    def propensities(self) -> Done:
        """theta and psi of the window."""
        how = self.settings.propensities
        found = build_propensities(
            self.start, self.warehouse, self.window(), how, force=self.force
        )  # fmt: skip
        if found.skipped:
            return Done("unchanged", skipped=True)
        return Done("; ".join(line.strip() for line in summary_lines(found.results)[:2]))

    def pairs(self) -> Done:
        """Weighted pairs of the window."""
        outcomes = [
            build_pairs(
                self.start, self.warehouse, self.trained_on(), force=self.force,
                pairs=trial.settings.pairs, features=trial.settings.features.path,
            )
            for trial in self.trials()
        ]  # fmt: skip
        return Done(pairs.describe(outcomes[0]), all(o.skipped for o in outcomes))

    def train(self) -> Done:
        """The model, and those it is compared with."""
        outcomes = fit(self.trials(), force=self.force)
        told = describe(outcomes[0]).splitlines()
        skipped = all(outcome.skipped for outcome in outcomes)
        return Done("; ".join(line.strip() for line in told), skipped)

    def evaluate(self) -> Done:
        """The model against its baselines and the ranking that was shown."""
        metric = self.settings.promote.metric
        models = {method: read_model(self.warehouse, method) for method in self.methods}
        outcome = evaluate.judge(
            self.warehouse, self.judged_by(), models, self.settings, force=self.force
        )
        found = metric_values(outcome.totals, self.methods[0]).get(metric)
        told = f"{metric} {found.value:.4f} [{found.lower:.4f}, {found.upper:.4f}]" if found else ""
        judged = {name: plain(outcome.totals, name) for name in (*self.methods, LOGGING)}
        details = {"pages": self.pages(), "metrics": judged}
        return Done(told, outcome.skipped, details=details)

    def pages(self) -> int:
        """Results pages in the window."""
        manifests = (self.warehouse.current("groups", f"dt={date}") for date in self.window())
        return sum(m.counts["pages"] for m in manifests if m)

    def promote(self) -> Done:
        """The model challenges the champion."""
        decision = promote.decide(self.judged_by(), self.settings)
        told = promote.describe(decision).removeprefix("promote: ").splitlines()
        message = "; ".join(line.strip() for line in told)
        skipped = decision.outcome == "champion"
        kept = plain(decision.judged, CHAMPION) if decision.outcome == "kept" else {}
        details = decision.to_json() | {"champion_metrics": kept}
        return Done(message, skipped, decision.outcome, details)


def plain(totals: Totals | None, name: str) -> dict[str, float]:
    """One ranking's numbers over all traffic."""
    found = metric_values(totals or Totals(), name)
    return {metric: estimate.value for metric, estimate in found.items()}
