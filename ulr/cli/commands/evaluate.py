"""Judge models by golden labels and by held-out clicks, against the ranking that was shown."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rich.table import Table

from ulr.cli.commands.score import model_text
from ulr.cli.progress import watched
from ulr.cli.terminal import Answer, say, show
from ulr.config.settings import Settings
from ulr.engine.session import start_session
from ulr.evaluation.metrics import LOGGING
from ulr.evaluation.stage import EvaluationOutcome, build_evaluation
from ulr.evaluation.totals import Estimate, metric_values
from ulr.groups.window import window_dates
from ulr.models.published import evaluation_name, trained_on
from ulr.propensity.examination import known_propensities
from ulr.warehouse.tables import Warehouse

EXAMPLE = "ulr evaluate --date 2026-01-01..2026-01-03 --model joint"

SHOWN = ("ndcg_at_1", "ndcg_at_10", "map", "snips_dcg", "snips_arp", "ips_dcg", "pair_loss")


def configure(parser: argparse.ArgumentParser) -> None:
    """The clicks to judge by, and the models."""
    parser.add_argument(
        "--date", required=True, help="last day of the window, or the whole window as D1..D2"
    )
    parser.add_argument(
        "--model", action="append", metavar="NAME",
        help="a trained method, a registry URI or a LightGBM text file; may be repeated: the first "
             "is compared with the others (default: the configured method)",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="also where nothing has changed")


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Evaluate, publish `metrics`, and print the table."""
    warehouse = Warehouse(settings.warehouse.path)
    names = list(dict.fromkeys(args.model or [settings.pairs.method]))
    with watched("evaluate"):
        models = {name: model_text(warehouse, name, settings) for name in names}
        outcome = judge(warehouse, args.date, models, settings, force=args.force)
    if outcome.skipped:
        say("evaluate: unchanged, skipped")
    show(result_table(outcome, names))
    return Answer(outcome.to_json() | {"found": found_of(outcome, names)})


def judge(
    warehouse: Warehouse,
    date: str,
    models: Mapping[str, str],
    settings: Settings,
    *,
    partition: str | None = None,
    force: bool = False,
) -> EvaluationOutcome:
    """Judge models, given as LightGBM's text by name, on the window, as the settings say.

    partition: of `metrics`; without one, the first model's own.
    """
    dates = window_dates(warehouse, date, settings.propensities.window_days)
    for model in (trained_on(warehouse, name) for name in models):
        if settings.evaluate.holdout == "time":
            model.check_dates(dates)
        elif settings.evaluate.holdout == "query":
            model.check_queries(settings.pairs.test_fraction)
    return build_evaluation(
        partial(start_session, "evaluate", settings.spark),
        warehouse,
        dates,
        models,
        propensities=known_propensities(settings.pairs.propensities, warehouse),
        features=settings.features.path,
        test_fraction=settings.pairs.test_fraction,
        evaluate=settings.evaluate,
        sigmoid=float(settings.lightgbm.get("sigmoid", 1.0)),
        partition=partition or evaluation_name(next(iter(models))),
        force=force,
    )


def found_of(outcome: EvaluationOutcome, names: Sequence[str]) -> list[dict[str, Any]]:
    """All traffic's numbers: each ranking's own, and the first one's leads over the others."""
    asked = [(name, None) for name in (*names, LOGGING)]
    asked += [(names[0], rival) for rival in (*names[1:], LOGGING)]
    return [
        {"ranking": subject, "against": rival, "metric": metric, **estimate._asdict()}
        for subject, rival in asked
        for metric, estimate in metric_values(outcome.totals, subject, rival).items()
    ]


def result_table(outcome: EvaluationOutcome, names: Sequence[str]) -> Table:
    """A row per metric: each ranking with half its 95% interval, then the first model's leads."""
    rankings = {name: metric_values(outcome.totals, name) for name in (*names, LOGGING)}
    leads = {rival: metric_values(outcome.totals, names[0], rival) for rival in rankings}
    ours = rankings[names[0]]
    queries = max((e.queries for e in ours.values()), default=0)
    table = Table(
        title=f"judged by {queries:,} queries; 95% intervals, whole queries as clusters, theta and "
        "psi taken as exact"
    )
    headings = [*rankings, *(f"{names[0]} - {rival}" for rival in leads if rival != names[0])]
    for heading in ("", *headings):
        table.add_column(heading, no_wrap=True, justify="right" if heading else "left")
    for metric in (m for m in SHOWN if m in ours):
        cells = [_shown(found[metric]) for found in rankings.values()]
        cells += [_lead(found[metric]) for found in leads.values() if metric in found]
        table.add_row(metric, *cells)
    return table


def _shown(found: Estimate) -> str:
    return f"{found.value:.4f} ±{found.value - found.lower:.4f}"


def _lead(found: Estimate) -> str:
    return f"{found.value:+.4f} p={found.p_value:.2g}"
