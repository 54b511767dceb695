"""Train other methods or settings on past dates, from the daily groups alone; compare them."""

from __future__ import annotations

import argparse
import datetime as dt
from functools import partial

from ulr.aside import Aside, check_name
from ulr.commands import evaluate, train
from ulr.commands.registry import registry_of, submission
from ulr.dates import parse_dates
from ulr.errors import UserError
from ulr.examination import WAREHOUSE
from ulr.lock import hold
from ulr.pairing import build_pairs
from ulr.progress import watched
from ulr.propensities import build_propensities, window_dates
from ulr.session import start_session
from ulr.settings import Settings
from ulr.terminal import Answer, say, show
from ulr.warehouse import Outcome
from ulr.weights import METHOD_NAMES

EXAMPLE = "ulr rerun --from 2026-01-01 --to 2026-01-03 --methods robust,prs,joint"


def configure(parser: argparse.ArgumentParser) -> None:
    """The dates, the methods, and a name under which several settings stand side by side."""
    parser.add_argument("--from", dest="first", required=True, metavar="DATE", help="first day")
    parser.add_argument("--to", dest="last", required=True, metavar="DATE", help="last day")
    parser.add_argument("--methods", help="such as robust,prs,joint (default: the configured one)")
    parser.add_argument("--name", default="default", help="folder under reruns/ in the warehouse")
    parser.add_argument("--force", action="store_true", help="also where nothing has changed")


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Do what is missing, and print the comparison."""
    methods = _methods(args.methods or settings.pairs.method)
    asked = f"{args.first}..{args.last}"
    parse_dates(asked)
    warehouse = Aside(settings.warehouse.path, check_name(args.name))
    own = settings.model_copy(
        update={"warehouse": settings.warehouse.model_copy(
            update={"path": warehouse.storage.url})}
    )  # fmt: skip
    with hold(warehouse.storage, "", f"the re-run {args.name}"):
        dates = window_dates(warehouse, asked, 0)
        if own.pairs.propensities == WAREHOUSE:
            _propensities(warehouse, dates, own, args.force)
        made: list[Outcome] = []
        for method in methods:
            pairs = own.pairs.model_copy(update={"method": method})
            made += _one(warehouse, dates, own.model_copy(update={"pairs": pairs}), args.force)
        with watched("rerun evaluate"):
            outcome = evaluate.judge(warehouse, asked, methods, own, force=args.force)
    sent = [submission(warehouse, method, own, outcome.totals) for method in methods]
    registry_of(settings).send_comparison(f"rerun {args.name} {asked}", sent)
    show(evaluate.result_table(outcome, methods))
    say(
        f"rerun {args.name}: {len(methods)} methods on {len(dates)} days -> {warehouse.storage.url}"
    )
    return Answer({
        "name": args.name, "path": warehouse.storage.url, "dates": [str(d) for d in dates],
        "tables": [one.to_json() for one in [*made, outcome]],
        "found": evaluate.found_of(outcome, methods),
    })  # fmt: skip


def _methods(text: str) -> list[str]:
    methods = list(dict.fromkeys(m.strip() for m in text.split(",") if m.strip()))
    unknown = [m for m in methods if m not in METHOD_NAMES]
    if unknown or not methods:
        raise UserError(
            f"--methods {text}: {unknown[0] if unknown else 'nothing'} is no method; expected "
            f"some of {', '.join(METHOD_NAMES)}"
        )
    return methods


def _propensities(warehouse: Aside, dates: list[dt.date], settings: Settings, force: bool) -> None:
    start = partial(start_session, "rerun", settings.spark)
    with watched("rerun propensities"):
        outcome = build_propensities(start, warehouse, dates, settings.propensities, force=force)
    say(f"rerun propensities: {'unchanged, skipped' if outcome.skipped else 'done'}")


def _one(warehouse: Aside, dates: list[dt.date], settings: Settings, force: bool) -> list[Outcome]:
    """Pairs and a model of one method; what is there already is skipped."""
    with watched(f"rerun pairs {settings.pairs.method}"):
        outcome = build_pairs(
            partial(start_session, "rerun", settings.spark),
            warehouse,
            dates,
            pairs=settings.pairs,
            features=settings.features.path,
            force=force,
        )
    say(f"rerun pairs {settings.pairs.method}: "
        f"{'unchanged, skipped' if outcome.skipped else 'done'}")  # fmt: skip
    model = train.fit(settings, force=force)
    say(f"train {settings.pairs.method}: {train.describe(model)}")
    return [outcome, model]
