"""Train other methods or settings on past dates, from the daily groups alone; compare them.

Every --variant is trained beside the settings as they are, with each of the methods. It may change
what is in the sections propensities, pairs, train and lightgbm.
"""

from __future__ import annotations

import argparse
import re

from ulr.cli.commands import evaluate
from ulr.cli.terminal import Answer, say, show
from ulr.config.load import load_settings
from ulr.config.settings import Settings
from ulr.dates import parse_dates
from ulr.errors import UserError
from ulr.pairs.weights import METHOD_NAMES
from ulr.pipeline.comparison import beside, compare_trials, comparison_table, send
from ulr.pipeline.fit import Trial
from ulr.pipeline.reports import report_comparison
from ulr.report.facts import RERUN
from ulr.warehouse.overlay import PAIRS, OverlayWarehouse, check_name

EXAMPLE = (
    "ulr rerun --from 2026-01-01 --to 2026-01-03 --methods robust,joint "
    "--variant slow:lightgbm.learning_rate=0.02,train.num_iterations=600"
)
SECTIONS = ("propensities", "pairs", "train", "lightgbm")
FIXED = ("pairs.method", "pairs.test_fraction")  # --methods; all are judged by the same queries
_NEXT = re.compile(r",(?=[a-z_]+\.[\w.]+=)")  # a comma that begins another setting


def configure(parser: argparse.ArgumentParser) -> None:
    """The dates, the methods, the variants, and a name to find it all again."""
    parser.add_argument("--from", dest="first", required=True, metavar="DATE", help="first day")
    parser.add_argument("--to", dest="last", required=True, metavar="DATE", help="last day")
    parser.add_argument("--methods", help="such as robust,prs,joint (default: the configured one)")
    parser.add_argument(
        "--variant", action="append", default=[], metavar="NAME:KEY=VALUE,...",
        help="other settings under a name, as in deep:lightgbm.num_leaves=127; may be repeated",
    )  # fmt: skip
    parser.add_argument("--name", default="default", help="folder under reruns/ in the warehouse")
    parser.add_argument("--force", action="store_true", help="also where nothing has changed")


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Do what is missing, print the comparison, and send it to MLflow."""
    window = f"{args.first}..{args.last}"
    parse_dates(window)
    title = f"rerun {check_name('--name', args.name)}"
    trials = trials_of(args, settings)
    compared = compare_trials(title, trials, window, force=args.force)
    show(comparison_table(compared))
    where = trials[0].warehouse.storage.shown()
    say(f"{title}: {len(trials)} models on {len(compared.dates)} days -> {where}")
    page = report_comparison(RERUN, args.name, compared, settings, settings.promote.metric)
    send(title, compared, page)
    return Answer({
        "name": args.name, "path": where, "dates": [str(d) for d in compared.dates],
        "tables": [one.to_json() for one in compared.tables],
        "found": evaluate.found_of(compared.judged, compared.names),
    })  # fmt: skip


def trials_of(args: argparse.Namespace, settings: Settings) -> list[Trial]:
    """Every method with the settings as they are, then every method of every variant."""
    methods = _methods(args.methods or settings.pairs.method)
    base = beside(settings, args.name)
    trials = [Trial(method, base, settings.with_method(method)) for method in methods]
    for text in args.variant:
        name, changes = _variant(text)
        own = load_settings(args.conf, [*args.set, *changes])
        same_data = (own.pairs, own.propensities) == (settings.pairs, settings.propensities)
        shared = PAIRS if same_data else base.shared
        warehouse = OverlayWarehouse(base, "variants", name, shared=shared)
        trials += [Trial(f"{m}@{name}", warehouse, own.with_method(m)) for m in methods]
    names = [trial.name for trial in trials]
    if len(set(names)) < len(names):
        raise UserError(f"--variant: {max(names, key=names.count)} is given twice; names differ")
    return trials


def _variant(text: str) -> tuple[str, list[str]]:
    """A name and its changes, each as --set takes it."""
    name, colon, rest = text.partition(":")
    changes = _NEXT.split(rest)
    if not colon or not all("=" in change for change in changes):
        raise UserError(
            f"--variant {text}: expected NAME:KEY=VALUE, as in deep:lightgbm.num_leaves=127,"
            "train.num_iterations=200"
        )
    for key in (change.partition("=")[0] for change in changes):
        if key.partition(".")[0] not in SECTIONS or key in FIXED:
            raise UserError(
                f"--variant {text}: {key} is the same for all that are compared; a variant "
                f"changes {', '.join(f'{s}.*' for s in SECTIONS)}, but not {' or '.join(FIXED)}"
            )
    return check_name("--variant", name), changes


def _methods(text: str) -> list[str]:
    methods = list(dict.fromkeys(m.strip() for m in text.split(",") if m.strip()))
    unknown = [m for m in methods if m not in METHOD_NAMES]
    if unknown or not methods:
        raise UserError(
            f"--methods {text}: {unknown[0] if unknown else 'nothing'} is no method; expected "
            f"some of {', '.join(METHOD_NAMES)}"
        )
    return methods
