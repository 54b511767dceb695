"""Nights one after the other, under the warehouse's lock, each with its summary and its page."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterator, Sequence

from ulr.config.settings import Settings
from ulr.engine.interface import Engine
from ulr.pipeline.describe import describe_expired
from ulr.pipeline.events import Events, StepContext
from ulr.pipeline.night import STAGES, Night
from ulr.pipeline.reports import report_night, report_nights
from ulr.pipeline.stage_runner import StageResult, Summary, run_stages
from ulr.redact import redact
from ulr.warehouse.lock import hold
from ulr.warehouse.retention import (
    check_retention,
    find_expired,
    newest_date,
    remove_expired,
)
from ulr.warehouse.tables import Warehouse, open_warehouse
from ulr.warehouse.views import write_views

FOLDER = "nights"


def run_nights(
    engine: Engine,
    settings: Settings,
    dates: Sequence[dt.date],
    events: Events,
    *,
    from_stage: str | None = None,
    force: bool = False,
) -> list[Summary]:
    """Run a night per date and return the summaries; the first failed night is the last."""
    check_retention(settings.warehouse, settings.propensities.window_days)
    warehouse = open_warehouse(settings.warehouse)
    storage = warehouse.storage
    skipped = STAGES.index(from_stage) if from_stage in STAGES else 0
    total = len(dates) * (len(STAGES) - skipped)
    summaries: list[Summary] = []
    with (
        hold(storage, FOLDER, "this warehouse's night"),
        events.steps("nightly", total, "stages") as step,
    ):
        for date in dates:
            night = Night(engine, settings, date, force, events)
            stages = [
                (name, _followed(step, f"{date} {name}", run)) for name, run in night.stages()
            ]
            summary = run_stages(str(date), stages, from_stage=from_stage)
            summaries.append(summary)
            storage.write_json(redact(summary.to_json()), FOLDER, f"{date}.json")
            path = storage.shown(FOLDER, f"{date}.json")
            events.line(f"nightly {date}: {summary.outcome} in {summary.seconds:.1f} s -> {path}")
            with _recorded(summary):
                report_night(night, summary, events)
                _expire(warehouse, settings, events)
                write_views(warehouse.storage, settings.warehouse.views)
            with _recorded(summary):  # also if the night's own page could not be written
                report_nights(storage, events)
            storage.write_json(redact(summary.to_json()), FOLDER, f"{date}.json")
            if summary.error is not None:
                break
    return summaries


def _expire(warehouse: Warehouse, settings: Settings, events: Events) -> None:
    """Remove what is older than its retention, counted back from the newest date."""
    today = newest_date(warehouse)
    expired = find_expired(warehouse, settings.warehouse, today) if today else []
    if expired:
        remove_expired(warehouse, expired)
        events.line(f"nightly: {describe_expired(expired)}")


def _followed(
    step: StepContext, title: str, run: Callable[[], StageResult]
) -> Callable[[], StageResult]:
    def followed() -> StageResult:
        with step(title):
            return run()

    return followed


@contextlib.contextmanager
def _recorded(summary: Summary) -> Iterator[None]:
    """Record an error of the block in the summary; an earlier error of the night takes priority."""
    try:
        yield
    except Exception as error:
        summary.fail(error)
