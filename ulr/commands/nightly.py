"""One night: groups, propensities, pairs, training, evaluation, promotion, in one Spark session."""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyspark.sql import SparkSession
from rich.table import Table

from ulr.commands import evaluate, groups, pairs, promote, train
from ulr.commands.registry import registry_of
from ulr.daily import build_groups
from ulr.dates import parse_dates
from ulr.errors import UserError
from ulr.evaluation.rows import metric_values
from ulr.lock import hold
from ulr.night import Done, Step, Summary, run_night
from ulr.outbox import sync, waiting
from ulr.pairing import build_pairs
from ulr.progress import watched
from ulr.propensities import build_propensities, window_dates
from ulr.propensity.report import words
from ulr.session import start_session
from ulr.settings import Settings
from ulr.terminal import Answer, say, show
from ulr.warehouse import Warehouse

EXAMPLE = "ulr nightly --date 2026-01-03 --from-stage pairs"
FOLDER = "nights"


def configure(parser: argparse.ArgumentParser) -> None:
    """The date, and where to begin."""
    parser.add_argument("--date", required=True, help="the day whose log has just been closed")
    parser.add_argument("--from-stage", metavar="STAGE", help="leave out the stages before this")
    parser.add_argument("--force", action="store_true", help="also where nothing has changed")


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Run the night under the warehouse's lock; the summary is printed and kept."""
    dates = parse_dates(args.date)
    if len(dates) != 1:
        raise UserError(f"--date {args.date}: a night has one date; for several use `ulr rerun`")
    night = Night(settings, dates[0], args.force)
    storage = night.warehouse.storage
    with hold(storage, FOLDER, "this warehouse's night"):
        summary = run_night(str(dates[0]), night.steps(), from_stage=args.from_stage)
        storage.write_json(summary.to_json(), FOLDER, f"{dates[0]}.json")
    show(summary_table(summary))
    kept = f"{settings.warehouse.path}/{FOLDER}/{summary.date}.json"
    say(f"nightly {summary.date}: {summary.outcome} -> {kept}")
    return Answer(summary.to_json(), summary.error)


def summary_table(summary: Summary) -> Table:
    """A line per stage."""
    table = Table("stage", "status", title=f"night of {summary.date}")
    table.add_column("seconds", justify="right")
    table.add_column("")
    for record in summary.stages:
        table.add_row(record.stage, record.status, f"{record.seconds:.1f}", record.words)
    return table


@dataclass(frozen=True)
class Night:
    """The stages of one date, as the settings say."""

    settings: Settings
    date: dt.date
    force: bool

    @property
    def warehouse(self) -> Warehouse:
        """Where everything is."""
        return Warehouse(self.settings.warehouse.path)

    def steps(self) -> list[Step]:
        """In their order."""
        bodies = (self.groups, self.propensities, self.pairs, self.train, self.evaluate,
                  self.promote)  # fmt: skip
        named = {body.__name__: body for body in bodies}
        return [Step(name, partial(_watched, name, body)) for name, body in named.items()]

    def start(self) -> SparkSession:
        """The one session of the night."""
        return start_session("nightly", self.settings.spark)

    def window(self) -> list[dt.date]:
        """The published dates up to this one."""
        days = self.settings.propensities.window_days
        return window_dates(self.warehouse, str(self.date), days)

    def trained_on(self) -> list[dt.date]:
        """The window; without its last day where that is what the model is judged by."""
        dates = self.window()
        if self.settings.evaluate.holdout != "time":
            return dates
        before = [date for date in dates if date < self.date]
        if not before:
            raise UserError(
                f"evaluate.holdout=time keeps {self.date} aside and there are no groups before "
                "it; build an earlier date, or use evaluate.holdout=query"
            )
        return before

    def judged_by(self) -> str:
        """The same as a --date."""
        dates = self.window()
        by_time = self.settings.evaluate.holdout == "time"
        return f"{self.date if by_time else dates[0]}..{dates[-1]}"

    def groups(self) -> Done:
        """The date's log, reduced."""
        outcome = build_groups(
            self.start, self.warehouse, self.date, sessions=self.settings.sessions,
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
        return Done("; ".join(line.strip() for line in words(found.results)[:2]))

    def pairs(self) -> Done:
        """Weighted pairs of the window."""
        outcome = build_pairs(
            self.start, self.warehouse, self.trained_on(), pairs=self.settings.pairs,
            features=self.settings.features.path, force=self.force,
        )  # fmt: skip
        return Done(pairs.describe(outcome), outcome.skipped)

    def train(self) -> Done:
        """The model."""
        outcome = train.fit(self.settings, force=self.force)
        told = train.describe(outcome).splitlines()
        return Done("; ".join(line.strip() for line in told), outcome.skipped)

    def evaluate(self) -> Done:
        """The model against the ranking that was shown."""
        method, metric = self.settings.pairs.method, self.settings.promote.metric
        outcome = evaluate.judge(
            self.warehouse, self.judged_by(), [method], self.settings, force=self.force
        )
        found = metric_values(outcome.totals, method).get(metric)
        told = f"{metric} {found.value:.4f} [{found.lower:.4f}, {found.upper:.4f}]" if found else ""
        return Done(told, outcome.skipped)

    def promote(self) -> Done:
        """Send what waits from earlier nights, then challenge the champion."""
        registry = registry_of(self.settings)
        if waiting(self.warehouse):
            sync(registry, self.warehouse)
        decision = promote.decide(self.judged_by(), self.settings)
        told = promote.describe(decision).removeprefix("promote: ").splitlines()
        skipped = decision.outcome == "champion"
        words = "; ".join(line.strip() for line in told)
        return Done(words, skipped, decision.outcome, decision.to_json())


def _watched(name: str, body: Callable[[], Done]) -> Done:
    with watched(f"nightly {name}"):
        return body()
